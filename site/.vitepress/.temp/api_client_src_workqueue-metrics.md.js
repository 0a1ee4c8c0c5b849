import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"client/src/workqueue-metrics","description":"","frontmatter":{},"headers":[],"relativePath":"api/client/src/workqueue-metrics.md","filePath":"api/client/src/workqueue-metrics.md"}');
const _sfc_main = { name: "api/client/src/workqueue-metrics.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="clientsrcworkqueue-metrics" tabindex="-1">client/src/workqueue-metrics <a class="header-anchor" href="#clientsrcworkqueue-metrics" aria-label="Permalink to &quot;client/src/workqueue-metrics&quot;">​</a></h1><h2 id="functions" tabindex="-1">Functions <a class="header-anchor" href="#functions" aria-label="Permalink to &quot;Functions&quot;">​</a></h2><h3 id="workqueuemetrics" tabindex="-1">workqueueMetrics() <a class="header-anchor" href="#workqueuemetrics" aria-label="Permalink to &quot;workqueueMetrics()&quot;">​</a></h3><blockquote><p><strong>workqueueMetrics</strong>(<code>registry</code>, <code>name</code>): (<code>state</code>) =&gt; <code>WorkqueueMetrics</code></p></blockquote><p>Registers the series of a queue under client-go&#39;s names. A queue with the name of an older one replaces it.</p><h4 id="parameters" tabindex="-1">Parameters <a class="header-anchor" href="#parameters" aria-label="Permalink to &quot;Parameters&quot;">​</a></h4><h5 id="registry" tabindex="-1">registry <a class="header-anchor" href="#registry" aria-label="Permalink to &quot;registry&quot;">​</a></h5><p><code>Registry</code></p><h5 id="name" tabindex="-1">name <a class="header-anchor" href="#name" aria-label="Permalink to &quot;name&quot;">​</a></h5><p><code>string</code></p><h4 id="returns" tabindex="-1">Returns <a class="header-anchor" href="#returns" aria-label="Permalink to &quot;Returns&quot;">​</a></h4><p>(<code>state</code>) =&gt; <code>WorkqueueMetrics</code></p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("api/client/src/workqueue-metrics.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const workqueueMetrics = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  workqueueMetrics as default
};
