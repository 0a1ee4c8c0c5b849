import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"authn-client-certificate","description":"","frontmatter":{},"headers":[],"relativePath":"plugins/authn-client-certificate/index.md","filePath":"plugins/authn-client-certificate/README.md"}');
const _sfc_main = { name: "plugins/authn-client-certificate/index.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="authn-client-certificate" tabindex="-1">authn-client-certificate <a class="header-anchor" href="#authn-client-certificate" aria-label="Permalink to &quot;authn-client-certificate&quot;">​</a></h1><p>Authenticates client certificates: the common name is the user (the last of several), the organizations are the groups. The API server has verified the chain against the cluster CA; the plugin never sees other certificates, also none of the front-proxy CA. The fingerprint is the extra value <code>authentication.kubernetes.io/credential-id</code>.</p><h2 id="config" tabindex="-1">Config <a class="header-anchor" href="#config" aria-label="Permalink to &quot;Config&quot;">​</a></h2><p>None. Needs: <code>informers/v1</code>.</p><h2 id="removed-nodes" tabindex="-1">Removed nodes <a class="header-anchor" href="#removed-nodes" aria-label="Permalink to &quot;Removed nodes&quot;">​</a></h2><p><code>oarlock node remove</code> lists the node in the ConfigMap <code>oarlock-removed-nodes</code> of <code>kube-system</code>. Certificates of the node that were issued before are rejected with 401; a certificate of a later join is accepted. Until the list is known after a start, requests of nodes wait, at most 30 s.</p><h2 id="tests" tabindex="-1">Tests <a class="header-anchor" href="#tests" aria-label="Permalink to &quot;Tests&quot;">​</a></h2><p>The authn contract with certificates of openssl; names with punctuation, escapes and letters of any script; several attributes in one RDN.</p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("plugins/authn-client-certificate/README.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const README = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  README as default
};
