import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"authz-always-deny","description":"","frontmatter":{},"headers":[],"relativePath":"plugins/authz-always-deny/index.md","filePath":"plugins/authz-always-deny/README.md"}');
const _sfc_main = { name: "plugins/authz-always-deny/index.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="authz-always-deny" tabindex="-1">authz-always-deny <a class="header-anchor" href="#authz-always-deny" aria-label="Permalink to &quot;authz-always-deny&quot;">​</a></h1><p>Denies every request that no earlier authorizer allowed: the mode <code>AlwaysDeny</code> of Kubernetes. List <code>authz-masters</code> before it: otherwise requests of the API server to itself are denied as well. No configuration.</p><h2 id="tests" tabindex="-1">Tests <a class="header-anchor" href="#tests" aria-label="Permalink to &quot;Tests&quot;">​</a></h2><p>The authz contract.</p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("plugins/authz-always-deny/README.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const README = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  README as default
};
