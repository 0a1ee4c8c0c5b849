import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse(`{"title":"ADR 22: Encode the cluster's certificates without a library","description":"","frontmatter":{},"headers":[],"relativePath":"docs/adr/0022-own-certificate-encoder.md","filePath":"docs/adr/0022-own-certificate-encoder.md"}`);
const _sfc_main = { name: "docs/adr/0022-own-certificate-encoder.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="adr-22-encode-the-clusters-certificates-without-a-library" tabindex="-1">ADR 22: Encode the cluster&#39;s certificates without a library <a class="header-anchor" href="#adr-22-encode-the-clusters-certificates-without-a-library" aria-label="Permalink to &quot;ADR 22: Encode the cluster&#39;s certificates without a library&quot;">​</a></h1><ul><li>Status: accepted</li><li>Date: 2026-11-22</li><li>Supersedes: -</li></ul><h2 id="context" tabindex="-1">Context <a class="header-anchor" href="#context" aria-label="Permalink to &quot;Context&quot;">​</a></h2><p>A new cluster creates a CA and about four leaf certificates before it can listen. <code>startCluster()</code> of a unit test should take 300 ms in total.</p><h2 id="options" tabindex="-1">Options <a class="header-anchor" href="#options" aria-label="Permalink to &quot;Options&quot;">​</a></h2><table tabindex="0"><thead><tr><th>option: a fresh process loads the code and signs ten certificates</th><th>CPU time</th></tr></thead><tbody><tr><td><code>@peculiar/x509</code> (about forty modules, signs with WebCrypto)</td><td>0.4 to 0.5 s</td></tr><tr><td>Own encoder, signs with <code>node:crypto</code></td><td>0.05 s</td></tr></tbody></table><p>Both were measured twice, on a busy machine.</p><h2 id="decision" tabindex="-1">Decision <a class="header-anchor" href="#decision" aria-label="Permalink to &quot;Decision&quot;">​</a></h2><p><code>packages/cluster/src/pki/internal/der.ts</code> encodes the ten kinds of values that a certificate contains. <code>packages/cluster/src/pki/certificate-writer.ts</code> writes the two kinds of certificates that a cluster creates (RFC 5280): a CA, and a leaf for a client or a server.</p><p>This code writes and parses almost nothing: it takes the subject and the public key of the CA, after <code>node:crypto</code> has accepted it. Certificate signing requests, whose content an attacker can choose, are parsed by <code>@peculiar/x509</code>, which is loaded with the first request.</p><h2 id="consequences" tabindex="-1">Consequences <a class="header-anchor" href="#consequences" aria-label="Permalink to &quot;Consequences&quot;">​</a></h2><ul><li>A certificate with another extension needs code in Oarlock.</li><li>Tests verify the result with Node&#39;s OpenSSL, for keys on the three NIST curves and RSA, for all kinds of names, and for dates after 2049. Every connection of kubectl shows that Go accepts it.</li></ul></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("docs/adr/0022-own-certificate-encoder.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const _0022OwnCertificateEncoder = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  _0022OwnCertificateEncoder as default
};
