import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"kernel/src/metrics-text","description":"","frontmatter":{},"headers":[],"relativePath":"api/kernel/src/metrics-text.md","filePath":"api/kernel/src/metrics-text.md"}');
const _sfc_main = { name: "api/kernel/src/metrics-text.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="kernelsrcmetrics-text" tabindex="-1">kernel/src/metrics-text <a class="header-anchor" href="#kernelsrcmetrics-text" aria-label="Permalink to &quot;kernel/src/metrics-text&quot;">​</a></h1><h2 id="functions" tabindex="-1">Functions <a class="header-anchor" href="#functions" aria-label="Permalink to &quot;Functions&quot;">​</a></h2><h3 id="metricstext" tabindex="-1">metricsText() <a class="header-anchor" href="#metricstext" aria-label="Permalink to &quot;metricsText()&quot;">​</a></h3><blockquote><p><strong>metricsText</strong>(<code>registries</code>, <code>names?</code>): <code>Promise</code>&lt;{ <code>contentType</code>: <code>string</code>; <code>text</code>: <code>string</code>; }&gt;</p></blockquote><p>Returns the metrics of several registries in the Prometheus text format. Samples with the same name are grouped, as the format requires.</p><h4 id="parameters" tabindex="-1">Parameters <a class="header-anchor" href="#parameters" aria-label="Permalink to &quot;Parameters&quot;">​</a></h4><h5 id="registries" tabindex="-1">registries <a class="header-anchor" href="#registries" aria-label="Permalink to &quot;registries&quot;">​</a></h5><p>readonly <code>Registry</code>&lt;<code>&quot;text/plain; version=0.0.4; charset=utf-8&quot;</code>&gt;[]</p><h5 id="names" tabindex="-1">names? <a class="header-anchor" href="#names" aria-label="Permalink to &quot;names?&quot;">​</a></h5><p><code>ReadonlySet</code>&lt;<code>string</code>&gt;</p><p>only the metrics with these names; all if absent</p><h4 id="returns" tabindex="-1">Returns <a class="header-anchor" href="#returns" aria-label="Permalink to &quot;Returns&quot;">​</a></h4><p><code>Promise</code>&lt;{ <code>contentType</code>: <code>string</code>; <code>text</code>: <code>string</code>; }&gt;</p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("api/kernel/src/metrics-text.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const metricsText = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  metricsText as default
};
