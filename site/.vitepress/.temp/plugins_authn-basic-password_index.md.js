import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"authn-basic-password","description":"","frontmatter":{},"headers":[],"relativePath":"plugins/authn-basic-password/index.md","filePath":"plugins/authn-basic-password/README.md"}');
const _sfc_main = { name: "plugins/authn-basic-password/index.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="authn-basic-password" tabindex="-1">authn-basic-password <a class="header-anchor" href="#authn-basic-password" aria-label="Permalink to &quot;authn-basic-password&quot;">​</a></h1><p>Authenticates <code>Authorization: Basic</code> with user names and passwords from a file. Kubernetes removed basic authentication in 1.19; use it in test clusters only. Off by default. A line is <code>password,user,uid,&quot;group1,group2&quot;</code>. Passwords are kept in memory as hashes.</p><table tabindex="0"><thead><tr><th>key</th><th>default</th><th>meaning</th></tr></thead><tbody><tr><td><code>file</code></td><td>required</td><td>path of the file, read once at startup; use mode 0600</td></tr></tbody></table><h2 id="tests" tabindex="-1">Tests <a class="header-anchor" href="#tests" aria-label="Permalink to &quot;Tests&quot;">​</a></h2><p>The authn contract; the line number of an invalid line.</p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("plugins/authn-basic-password/README.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const README = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  README as default
};
