// The protocol's official suite against the server at STREAMS_URL.
import { runConformanceTests } from '@durable-streams/server-conformance-tests'

runConformanceTests({ baseUrl: process.env.STREAMS_URL, longPollTimeoutMs: Number(process.env.STREAMS_LONG_POLL_MS) })
