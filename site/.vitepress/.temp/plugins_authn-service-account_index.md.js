import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"authn-service-account","description":"","frontmatter":{},"headers":[],"relativePath":"plugins/authn-service-account/index.md","filePath":"plugins/authn-service-account/README.md"}');
const _sfc_main = { name: "plugins/authn-service-account/index.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="authn-service-account" tabindex="-1">authn-service-account <a class="header-anchor" href="#authn-service-account" aria-label="Permalink to &quot;authn-service-account&quot;">​</a></h1><p>Authenticates tokens of service accounts. Tokens of the TokenRequest API (KEP-1205) are JWTs that the cluster&#39;s keys signed (ES256 or RS256), for an audience of this API server and with an expiry. The service account must exist with the same UID, and so must the pod, Secret or node that the token is bound to. Tokens of Secrets (<code>kubernetes.io/service-account-token</code>) are valid while the Secret contains them.</p><p>A verified token is cached for at most ten seconds: a revocation takes effect within this time. Rejections are not cached.</p><h2 id="config" tabindex="-1">Config <a class="header-anchor" href="#config" aria-label="Permalink to &quot;Config&quot;">​</a></h2><table tabindex="0"><thead><tr><th>key</th><th>default</th><th>meaning</th></tr></thead><tbody><tr><td><code>audiences</code></td><td>the issuer</td><td>tokens for one of these are accepted</td></tr><tr><td><code>cacheMs</code></td><td><code>9000</code></td><td>milliseconds for which a verified token is accepted without another verification</td></tr></tbody></table><p>Needs the cluster&#39;s keys and the API client.</p><h2 id="tests" tabindex="-1">Tests <a class="header-anchor" href="#tests" aria-label="Permalink to &quot;Tests&quot;">​</a></h2><p>The authn contract over a memory API with real signatures: 20 invalid tokens, expiry, cache and audiences. Replay of a token after its pod was deleted and created again. Rotation of the keys. Tokens of Secrets.</p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("plugins/authn-service-account/README.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const README = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  README as default
};
