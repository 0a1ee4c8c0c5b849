import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"authz-abac","description":"","frontmatter":{},"headers":[],"relativePath":"plugins/authz-abac/index.md","filePath":"plugins/authz-abac/README.md"}');
const _sfc_main = { name: "plugins/authz-abac/index.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="authz-abac" tabindex="-1">authz-abac <a class="header-anchor" href="#authz-abac" aria-label="Permalink to &quot;authz-abac&quot;">​</a></h1><p>Attribute-based access control (ABAC) with the policy file of Kubernetes: one JSON object of <code>abac.authorization.kubernetes.io/v1beta1</code> per line. Off by default.</p><table tabindex="0"><thead><tr><th>key</th><th>default</th><th>meaning</th></tr></thead><tbody><tr><td><code>file</code></td><td>required</td><td>path of the policy file, read once at startup</td></tr></tbody></table><h2 id="tests" tabindex="-1">Tests <a class="header-anchor" href="#tests" aria-label="Permalink to &quot;Tests&quot;">​</a></h2><p>The authz contract; subjects with <code>*</code>, listed rules, and the line number of an invalid policy.</p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("plugins/authz-abac/README.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const README = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  README as default
};
