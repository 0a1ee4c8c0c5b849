import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"spi/src/volume/contract/usage","description":"","frontmatter":{},"headers":[],"relativePath":"api/spi/src/volume/contract/usage.md","filePath":"api/spi/src/volume/contract/usage.md"}');
const _sfc_main = { name: "api/spi/src/volume/contract/usage.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="spisrcvolumecontractusage" tabindex="-1">spi/src/volume/contract/usage <a class="header-anchor" href="#spisrcvolumecontractusage" aria-label="Permalink to &quot;spi/src/volume/contract/usage&quot;">​</a></h1><h2 id="functions" tabindex="-1">Functions <a class="header-anchor" href="#functions" aria-label="Permalink to &quot;Functions&quot;">​</a></h2><h3 id="usagecases" tabindex="-1">usageCases() <a class="header-anchor" href="#usagecases" aria-label="Permalink to &quot;usageCases()&quot;">​</a></h3><blockquote><p><strong>usageCases</strong>(<code>test</code>, <code>target</code>): <code>void</code></p></blockquote><p>Declares the tests for drivers that report volume usage.</p><h4 id="parameters" tabindex="-1">Parameters <a class="header-anchor" href="#parameters" aria-label="Permalink to &quot;Parameters&quot;">​</a></h4><h5 id="test" tabindex="-1">test <a class="header-anchor" href="#test" aria-label="Permalink to &quot;test&quot;">​</a></h5><p><a href="./harness.html#volumecase"><code>VolumeCase</code></a></p><h5 id="target" tabindex="-1">target <a class="header-anchor" href="#target" aria-label="Permalink to &quot;target&quot;">​</a></h5><p>(<code>request</code>) =&gt; <code>object</code></p><h4 id="returns" tabindex="-1">Returns <a class="header-anchor" href="#returns" aria-label="Permalink to &quot;Returns&quot;">​</a></h4><p><code>void</code></p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("api/spi/src/volume/contract/usage.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const usage = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  usage as default
};
