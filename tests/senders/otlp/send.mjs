// Sends traces, logs and metrics by the JavaScript SDK of OpenTelemetry, as JSON.

import { OTLPLogExporter } from "@opentelemetry/exporter-logs-otlp-http"
import { OTLPMetricExporter } from "@opentelemetry/exporter-metrics-otlp-http"
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http"
import { resourceFromAttributes } from "@opentelemetry/resources"
import { BatchLogRecordProcessor, LoggerProvider } from "@opentelemetry/sdk-logs"
import { MeterProvider, PeriodicExportingMetricReader } from "@opentelemetry/sdk-metrics"
import { BatchSpanProcessor, TracerProvider } from "@opentelemetry/sdk-trace"

const url = process.env.TOLLGATE_URL
const resource = resourceFromAttributes({ "service.name": "page" })

const spans = new OTLPTraceExporter({ url: `${url}/v1/traces` })
const spanProcessors = [new BatchSpanProcessor({ exporter: spans })]
const traces = new TracerProvider({ resource, spanProcessors })
traces.getTracer("page").startSpan("order", { attributes: { items: 2 } }).end()
await traces.shutdown()

const records = new OTLPLogExporter({ url: `${url}/v1/logs` })
const processors = [new BatchLogRecordProcessor({ exporter: records })]
const logs = new LoggerProvider({ resource, processors })
logs.getLogger("page").emit({ severityText: "WARN", body: "the stock is low", attributes: { left: 3 } })
await logs.shutdown()

const points = new OTLPMetricExporter({ url: `${url}/v1/metrics` })
const readers = [new PeriodicExportingMetricReader({ exporter: points })]
const metrics = new MeterProvider({ resource, readers })
metrics.getMeter("page").createCounter("orders").add(2, { kind: "book" })
metrics.getMeter("page").createHistogram("seconds").record(0.25)
await metrics.shutdown()
