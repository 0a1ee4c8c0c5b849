import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"ADR 26: Sign service account tokens with ES256 unless RS256 is configured","description":"","frontmatter":{},"headers":[],"relativePath":"docs/adr/0026-token-signing-algorithm.md","filePath":"docs/adr/0026-token-signing-algorithm.md"}');
const _sfc_main = { name: "docs/adr/0026-token-signing-algorithm.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="adr-26-sign-service-account-tokens-with-es256-unless-rs256-is-configured" tabindex="-1">ADR 26: Sign service account tokens with ES256 unless RS256 is configured <a class="header-anchor" href="#adr-26-sign-service-account-tokens-with-es256-unless-rs256-is-configured" aria-label="Permalink to &quot;ADR 26: Sign service account tokens with ES256 unless RS256 is configured&quot;">​</a></h1><ul><li>Status: accepted</li><li>Date: 2026-11-23</li><li>Supersedes: -</li></ul><h2 id="context" tabindex="-1">Context <a class="header-anchor" href="#context" aria-label="Permalink to &quot;Context&quot;">​</a></h2><p>A new cluster generates the key that signs service account tokens before it is ready. kubeadm generates an RSA key. Many OpenID Connect relying parties and workload identity federations accept only RS256; components of Kubernetes accept ES256 as well.</p><h2 id="options" tabindex="-1">Options <a class="header-anchor" href="#options" aria-label="Permalink to &quot;Options&quot;">​</a></h2><p>Measured with <code>node:crypto</code> on two cores of a busy machine, Node 20:</p><table tabindex="0"><thead><tr><th></th><th>RSA 2048, RS256</th><th>P-256, ES256</th></tr></thead><tbody><tr><td>generation of a key</td><td>220 to 1,360 ms, varies with the random numbers</td><td>0.06 to 0.15 ms</td></tr><tr><td>signature</td><td>1.0 ms</td><td>0.08 ms</td></tr><tr><td>verification</td><td>0.09 ms</td><td>0.29 ms</td></tr></tbody></table><p>A new cluster is ready 0.5 s after exec.</p><h2 id="decision" tabindex="-1">Decision <a class="header-anchor" href="#decision" aria-label="Permalink to &quot;Decision&quot;">​</a></h2><p>New keys are for ES256. <code>spec.serviceAccountTokens.algorithm: RS256</code> selects RSA; a signing key of another type is then replaced at the start, and its public key continues to verify tokens. <code>oarlock keys rotate</code> keeps the type unless <code>--algorithm</code> is given.</p><p>Keys of both types can verify tokens at the same time. <code>/openid/v1/jwks</code> contains all of them, and the discovery document names exactly their algorithms.</p><h2 id="consequences" tabindex="-1">Consequences <a class="header-anchor" href="#consequences" aria-label="Permalink to &quot;Consequences&quot;">​</a></h2><ul><li>The first start with RS256 is a second slower at most. Later starts do not.</li><li>A cluster whose tokens other services verify needs one line of configuration if a service accepts only RS256.</li></ul></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("docs/adr/0026-token-signing-algorithm.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const _0026TokenSigningAlgorithm = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  _0026TokenSigningAlgorithm as default
};
