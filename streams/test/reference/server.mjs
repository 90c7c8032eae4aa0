// server.mjs PORT DIRECTORY: the protocol's reference server, with its store in files of the directory.
import { DurableStreamTestServer } from '@durable-streams/server'

const [, , port, dataDir] = process.argv
const server = new DurableStreamTestServer({ port: Number(port), host: '127.0.0.1', dataDir })
await server.start()
process.on('SIGTERM', async () => {
  await server.stop()
  process.exit(0)
})
