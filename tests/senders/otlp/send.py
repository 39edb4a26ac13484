"""Sends traces, logs and metrics by the Python SDK of OpenTelemetry, as JSON and as protobuf."""

import os

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.json.http import trace_exporter as json_traces
from opentelemetry.exporter.otlp.json.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.json.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http import trace_exporter as protobuf_traces
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

URL = os.environ["TOLLGATE_URL"]
SHOP = Resource.create({"service.name": "shop"})

traces = TracerProvider(resource=SHOP)
traces.add_span_processor(BatchSpanProcessor(json_traces.OTLPSpanExporter(f"{URL}/v1/traces")))
traces.add_span_processor(BatchSpanProcessor(protobuf_traces.OTLPSpanExporter(f"{URL}/v1/traces")))
with traces.get_tracer("shop").start_as_current_span("order", attributes={"items": 2}):
    pass
traces.shutdown()

logs = LoggerProvider(resource=SHOP)
logs.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter(f"{URL}/v1/logs")))
warning = {"severity_text": "WARN", "severity_number": SeverityNumber.WARN}
logs.get_logger("shop").emit(LogRecord(body="the stock is low", attributes={"left": 3}, **warning))
logs.shutdown()

metrics = MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter(f"{URL}/v1/metrics"))], SHOP)
metrics.get_meter("shop").create_counter("orders").add(2, {"kind": "book"})
metrics.get_meter("shop").create_histogram("seconds").record(0.25)
metrics.shutdown()
