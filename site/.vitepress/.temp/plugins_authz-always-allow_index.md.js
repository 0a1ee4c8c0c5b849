import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"authz-always-allow","description":"","frontmatter":{},"headers":[],"relativePath":"plugins/authz-always-allow/index.md","filePath":"plugins/authz-always-allow/README.md"}');
const _sfc_main = { name: "plugins/authz-always-allow/index.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="authz-always-allow" tabindex="-1">authz-always-allow <a class="header-anchor" href="#authz-always-allow" aria-label="Permalink to &quot;authz-always-allow&quot;">​</a></h1><p>Allows every request: the mode <code>AlwaysAllow</code> of Kubernetes. For test clusters without secrets.</p><table tabindex="0"><thead><tr><th>key</th><th>default</th><th>meaning</th></tr></thead><tbody><tr><td><code>groups</code></td><td><code>system:authenticated</code>, <code>system:unauthenticated</code></td><td>only requests of members of these groups are allowed</td></tr></tbody></table><h2 id="tests" tabindex="-1">Tests <a class="header-anchor" href="#tests" aria-label="Permalink to &quot;Tests&quot;">​</a></h2><p>The authz contract.</p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("plugins/authz-always-allow/README.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const README = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  README as default
};
