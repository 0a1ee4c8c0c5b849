import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"csi","description":"","frontmatter":{},"headers":[],"relativePath":"packages/csi/ARCHITECTURE.md","filePath":"packages/csi/ARCHITECTURE.md"}');
const _sfc_main = { name: "packages/csi/ARCHITECTURE.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="csi" tabindex="-1">csi <a class="header-anchor" href="#csi" aria-label="Permalink to &quot;csi&quot;">​</a></h1><p>The Container Storage Interface (csi.v1): its messages as a table of field numbers, types for the messages that are used, and a client for the three services of a driver (identity, controller, node). <code>csi-hostpath</code> serves the calls that <code>volume-csi</code> makes.</p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("packages/csi/ARCHITECTURE.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const ARCHITECTURE = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  ARCHITECTURE as default
};
