import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"authn-bootstrap-token","description":"","frontmatter":{},"headers":[],"relativePath":"plugins/authn-bootstrap-token/index.md","filePath":"plugins/authn-bootstrap-token/README.md"}');
const _sfc_main = { name: "plugins/authn-bootstrap-token/index.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="authn-bootstrap-token" tabindex="-1">authn-bootstrap-token <a class="header-anchor" href="#authn-bootstrap-token" aria-label="Permalink to &quot;authn-bootstrap-token&quot;">​</a></h1><p>Authenticates bootstrap tokens of new nodes, such as <code>abcdef.0123456789abcdef</code>: Secrets of type <code>bootstrap.kubernetes.io/token</code> in kube-system, as <code>oarlock token create</code> and kubeadm create them. The user is <code>system:bootstrap:&lt;id&gt;</code> in the group <code>system:bootstrappers</code> and in those groups of <code>auth-extra-groups</code> that start with <code>system:bootstrappers:</code>. A deleted or expired token is rejected at once: nothing is cached.</p><h2 id="config" tabindex="-1">Config <a class="header-anchor" href="#config" aria-label="Permalink to &quot;Config&quot;">​</a></h2><p>None. Needs the API client.</p><h2 id="tests" tabindex="-1">Tests <a class="header-anchor" href="#tests" aria-label="Permalink to &quot;Tests&quot;">​</a></h2><p>The authn contract over a memory API: wrong, expired, deleted and misplaced tokens, tokens of other types; an API that fails.</p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("plugins/authn-bootstrap-token/README.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const README = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  README as default
};
