import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"authn-static-token","description":"","frontmatter":{},"headers":[],"relativePath":"plugins/authn-static-token/index.md","filePath":"plugins/authn-static-token/README.md"}');
const _sfc_main = { name: "plugins/authn-static-token/index.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="authn-static-token" tabindex="-1">authn-static-token <a class="header-anchor" href="#authn-static-token" aria-label="Permalink to &quot;authn-static-token&quot;">​</a></h1><p>Authenticates bearer tokens from a file in the format of kube-apiserver&#39;s <code>--token-auth-file</code>: lines of <code>token,user,uid,&quot;group1,group2&quot;</code>; UID and groups are optional. The file is read once at startup. Tokens are kept in memory as hashes. Use it for tests; certificates suit users better.</p><h2 id="config" tabindex="-1">Config <a class="header-anchor" href="#config" aria-label="Permalink to &quot;Config&quot;">​</a></h2><table tabindex="0"><thead><tr><th>key</th><th>default</th><th>meaning</th></tr></thead><tbody><tr><td><code>file</code></td><td>required</td><td>path of the file</td></tr></tbody></table><p>Needs: nothing.</p><h2 id="tests" tabindex="-1">Tests <a class="header-anchor" href="#tests" aria-label="Permalink to &quot;Tests&quot;">​</a></h2><p>The authn contract; the file format; invalid and missing files.</p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("plugins/authn-static-token/README.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const README = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  README as default
};
