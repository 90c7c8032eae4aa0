// Caddy with its plugin of the protocol, to compare with.  run.sh replaces the plugin's module by PLUGIN=FOLDER.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
	_ "github.com/durable-streams/durable-streams/packages/caddy-plugin"
)

func main() {
	caddycmd.Main()
}
