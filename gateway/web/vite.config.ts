import { defineConfig } from "vite";

// The page is served from the gateway's own origin, so every path in the code is absolute. For `npm run dev`
// the gateway is somewhere else: say where in ROWLOCK_GATEWAY.
const gateway = process.env["ROWLOCK_GATEWAY"] ?? "http://127.0.0.1:8080";

export default defineConfig({
  build: { target: "es2022", sourcemap: false, assetsInlineLimit: 0 },
  server: { proxy: { "/v1": gateway, "/config.json": gateway } },
});
