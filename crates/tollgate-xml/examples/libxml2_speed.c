/* Measures how fast the SAX2 interface of libxml2 reads a document: `libxml2_speed FILE ROUNDS`.
   Prints the best MB/s of the rounds, and the counts of the events, as xml_speed does. */
#include <libxml/parser.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct counts {
    size_t elements, attributes, value_bytes, text_bytes, namespace_bytes;
};

static void start(void *data, const xmlChar *name, const xmlChar *prefix, const xmlChar *uri, int namespaces,
                  const xmlChar **declared, int attributes, int defaulted, const xmlChar **values) {
    struct counts *counts = data;
    (void)name, (void)prefix, (void)namespaces, (void)declared, (void)defaulted;
    counts->elements++;
    counts->namespace_bytes += uri ? strlen((const char *)uri) : 0;
    counts->attributes += attributes;
    for (int i = 0; i < attributes; i++) counts->value_bytes += values[5 * i + 4] - values[5 * i + 3];
}

static void end(void *data, const xmlChar *name, const xmlChar *prefix, const xmlChar *uri) {
    (void)data, (void)name, (void)prefix, (void)uri;
}

static void text(void *data, const xmlChar *text, int length) {
    (void)text;
    ((struct counts *)data)->text_bytes += length;
}

int main(int count, char **arguments) {
    if (count != 3) return fprintf(stderr, "usage: libxml2_speed FILE ROUNDS\n"), 2;
    FILE *file = fopen(arguments[1], "rb");
    if (!file) return perror(arguments[1]), 1;
    fseek(file, 0, SEEK_END);
    long length = ftell(file);
    rewind(file);
    char *document = malloc(length);
    if (!document || fread(document, 1, length, file) != (size_t)length) return 1;
    xmlSAXHandler handler = {0};
    handler.initialized = XML_SAX2_MAGIC;
    handler.startElementNs = start;
    handler.endElementNs = end;
    handler.characters = handler.ignorableWhitespace = handler.cdataBlock = text;
    double best = 1e9;
    struct counts counts;
    for (int round = atoi(arguments[2]); round > 0; round--) {
        struct timespec before, after;
        memset(&counts, 0, sizeof counts);
        clock_gettime(CLOCK_MONOTONIC, &before);
        if (xmlSAXUserParseMemory(&handler, &counts, document, length) != 0) return 1;
        clock_gettime(CLOCK_MONOTONIC, &after);
        double seconds = (after.tv_sec - before.tv_sec) + (after.tv_nsec - before.tv_nsec) / 1e9;
        if (seconds < best) best = seconds;
    }
    printf("%.1f Counts { elements: %zu, attributes: %zu, value_bytes: %zu, text_bytes: %zu, namespace_bytes: %zu }\n",
           length / 1e6 / best, counts.elements, counts.attributes, counts.value_bytes, counts.text_bytes,
           counts.namespace_bytes);
    return 0;
}
