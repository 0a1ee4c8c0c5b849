import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"authn-anonymous","description":"","frontmatter":{},"headers":[],"relativePath":"plugins/authn-anonymous/index.md","filePath":"plugins/authn-anonymous/README.md"}');
const _sfc_main = { name: "plugins/authn-anonymous/index.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="authn-anonymous" tabindex="-1">authn-anonymous <a class="header-anchor" href="#authn-anonymous" aria-label="Permalink to &quot;authn-anonymous&quot;">​</a></h1><p>Authenticates requests without credentials as <code>system:anonymous</code> in the group <code>system:unauthenticated</code>, on a few paths. It abstains if the request has credentials. The API server never downgrades invalid credentials to anonymous. The plugin is the last authenticator of the list; authorization limits what the user may do.</p><h2 id="config" tabindex="-1">Config <a class="header-anchor" href="#config" aria-label="Permalink to &quot;Config&quot;">​</a></h2><table tabindex="0"><thead><tr><th>key</th><th>default</th><th>meaning</th></tr></thead><tbody><tr><td><code>paths</code></td><td><code>/livez</code>, <code>/readyz</code>, <code>/healthz</code>, <code>/version</code>, <code>/oarlock/v1/ca</code></td><td>exact paths; empty: every path</td></tr></tbody></table><p>Needs: nothing.</p><h2 id="tests" tabindex="-1">Tests <a class="header-anchor" href="#tests" aria-label="Permalink to &quot;Tests&quot;">​</a></h2><p>The authn contract with the default paths and with every path; exact comparison of paths.</p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("plugins/authn-anonymous/README.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const README = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  README as default
};
