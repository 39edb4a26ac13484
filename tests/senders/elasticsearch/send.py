"""Sends documents by the Python client of Elasticsearch."""

import os

from elasticsearch import Elasticsearch, helpers

client = Elasticsearch(os.environ["TOLLGATE_URL"], http_compress=True)
orders = ({"_index": "orders", "_id": str(number), "_source": {"total": number}} for number in (1, 2, 3))
done, errors = helpers.bulk(client, orders)
assert (done, errors) == (3, []), errors
# A document that is sent again makes no second row.
helpers.bulk(client, [{"_index": "orders", "_id": "1", "_source": {"total": 1}}])
