import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"authz-masters","description":"","frontmatter":{},"headers":[],"relativePath":"plugins/authz-masters/index.md","filePath":"plugins/authz-masters/README.md"}');
const _sfc_main = { name: "plugins/authz-masters/index.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="authz-masters" tabindex="-1">authz-masters <a class="header-anchor" href="#authz-masters" aria-label="Permalink to &quot;authz-masters&quot;">​</a></h1><p>Allows every request of members of <code>system:masters</code>. It is the first authorizer of the list, so that no later authorizer can lock administrators out.</p><h2 id="config" tabindex="-1">Config <a class="header-anchor" href="#config" aria-label="Permalink to &quot;Config&quot;">​</a></h2><table tabindex="0"><thead><tr><th>key</th><th>default</th><th>meaning</th></tr></thead><tbody><tr><td><code>groups</code></td><td><code>system:masters</code></td><td>groups whose members may do everything</td></tr></tbody></table><p>Needs: nothing.</p><h2 id="tests" tabindex="-1">Tests <a class="header-anchor" href="#tests" aria-label="Permalink to &quot;Tests&quot;">​</a></h2><p>The authz contract.</p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("plugins/authz-masters/README.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const README = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  README as default
};
