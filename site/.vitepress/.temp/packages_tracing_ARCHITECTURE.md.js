import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"tracing","description":"","frontmatter":{},"headers":[],"relativePath":"packages/tracing/ARCHITECTURE.md","filePath":"packages/tracing/ARCHITECTURE.md"}');
const _sfc_main = { name: "packages/tracing/ARCHITECTURE.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="tracing" tabindex="-1">tracing <a class="header-anchor" href="#tracing" aria-label="Permalink to &quot;tracing&quot;">​</a></h1><p>Records spans of the OpenTelemetry API in bounded memory for <code>oarlock trace</code>, and sends them to an OTLP collector if one is configured; nodes send theirs to the API server.</p><ul><li><code>recording-tracer.ts</code> - a tracer that passes ended spans to a sink. Without tracing the kernel&#39;s no-op tracer is used.</li><li><code>memory-span-store.ts</code> - a ring buffer; indexes by trace and object are built on read. <code>span-exporter.ts</code> - sends batches from a bounded queue, without blocking the code that ends a span.</li><li><code>otlp.ts</code> - OTLP/HTTP in JSON. <code>trace-handlers.ts</code> - <code>GET /oarlock/v1/traces</code>, <code>POST /oarlock/v1/spans</code>.</li><li><code>trace-tree.ts</code> - trees of spans, the waiting time between cause and effect, the critical path, failed steps.</li></ul><p>A cause is the span context of a write. It is stored by the write&#39;s revision beside the watch cache, is passed on with watch events, and becomes the parent of the reconcile, scheduling cycle or pod sync that the event triggers. Objects do not contain it.</p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("packages/tracing/ARCHITECTURE.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const ARCHITECTURE = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  ARCHITECTURE as default
};
