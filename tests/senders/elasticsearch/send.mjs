// Sends documents by the JavaScript client of Elasticsearch.

import { Client } from "@elastic/elasticsearch"

const client = new Client({ node: process.env.TOLLGATE_URL })
const result = await client.helpers.bulk({
  datasource: [{ total: 4 }, { total: 5 }],
  onDocument: () => ({ create: { _index: "orders" } }),
})
if (result.successful !== 2) throw new Error(JSON.stringify(result))
await client.close()
