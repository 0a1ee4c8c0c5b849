import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"cli","description":"","frontmatter":{},"headers":[],"relativePath":"packages/cli/index.md","filePath":"packages/cli/README.md"}');
const _sfc_main = { name: "packages/cli/index.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="cli" tabindex="-1">cli <a class="header-anchor" href="#cli" aria-label="Permalink to &quot;cli&quot;">​</a></h1><p>The <code>oarlock</code> command. <code>src/main.ts</code> lists the commands; each is a module of the same name. The repository&#39;s <a href="./../../README.html">README</a> describes them.</p><ul><li><code>bin/oarlock.js</code> runs the bundled file (<code>bundle/</code>, written by <code>tools/bundle.mjs</code>) with V8&#39;s code cache, or the sources (<a href="./../../docs/adr/0015-single-file-bundle.html">ADR 15</a>).</li><li><code>templates/&lt;slot&gt;/</code> - the packages that <code>oarlock plugins new</code> creates: sources and tests that are compiled and formatted with the rest, and <code>template.json</code>, which describes the manifest and README. <code>__Class__</code>, <code>__ID__</code> and <code>__NAME__</code> stand for the plugin.</li><li><code>src/dev/</code> - <code>oarlock dev</code>: reloads saved plugins and logs each request. <code>src/export/</code> - writes a plugin as an image and manifests.</li></ul></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("packages/cli/README.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const README = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  README as default
};
