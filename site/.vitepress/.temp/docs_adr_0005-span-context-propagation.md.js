import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"ADR 5: Propagate span contexts beside objects","description":"","frontmatter":{},"headers":[],"relativePath":"docs/adr/0005-span-context-propagation.md","filePath":"docs/adr/0005-span-context-propagation.md"}');
const _sfc_main = { name: "docs/adr/0005-span-context-propagation.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="adr-5-propagate-span-contexts-beside-objects" tabindex="-1">ADR 5: Propagate span contexts beside objects <a class="header-anchor" href="#adr-5-propagate-span-contexts-beside-objects" aria-label="Permalink to &quot;ADR 5: Propagate span contexts beside objects&quot;">​</a></h1><ul><li>Status: accepted</li><li>Date: 2026-11-21</li><li>Supersedes: -</li></ul><h2 id="context" tabindex="-1">Context <a class="header-anchor" href="#context" aria-label="Permalink to &quot;Context&quot;">​</a></h2><p>The question &quot;why does my pod not run&quot; is answered by a chain of writes, each by another component. In Kubernetes, operators reconstruct this chain from events and logs.</p><h2 id="options" tabindex="-1">Options <a class="header-anchor" href="#options" aria-label="Permalink to &quot;Options&quot;">​</a></h2><table tabindex="0"><thead><tr><th>option</th><th>result</th></tr></thead><tbody><tr><td>Trace context in an annotation of each object</td><td>Every write differs from its predecessor; clients read and copy the annotation; <code>kubectl diff</code> shows it</td></tr><tr><td>Trace context beside the object, by revision</td><td>Adopted</td></tr></tbody></table><h2 id="decision" tabindex="-1">Decision <a class="header-anchor" href="#decision" aria-label="Permalink to &quot;Decision&quot;">​</a></h2><p>The span context of a write is the cause of the work that follows. The API server keeps it under the revision of the write, in bounded memory beside the watch cache, and delivers it with the watch event. Between processes it is a field of the watch frame that only Oarlock&#39;s client requests; requests carry <code>traceparent</code>. Informers pass it to handlers, and workqueues keep the span contexts of each key. The following work is a span below the first cause, with links to up to 32 others, and its client sends requests below that span.</p><p>Writes are recorded, and reads only if they carry a trace context from outside. Spans are those of the OpenTelemetry API. The newest spans are kept in memory for <code>oarlock trace</code>; a collector is optional.</p><h2 id="consequences" tabindex="-1">Consequences <a class="header-anchor" href="#consequences" aria-label="Permalink to &quot;Consequences&quot;">​</a></h2><ul><li>Objects are byte for byte the same as in Kubernetes.</li><li>The chain is complete while the span context is in memory. After a restart, or for a very old event, the work starts a new trace.</li><li>A reconcile with several causes appears below only one of them.</li><li>Every component that forwards work must forward the span context. It is therefore an argument, not a hidden context.</li></ul></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("docs/adr/0005-span-context-propagation.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const _0005SpanContextPropagation = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  _0005SpanContextPropagation as default
};
