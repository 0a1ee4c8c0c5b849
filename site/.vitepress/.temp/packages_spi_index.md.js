import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"spi","description":"","frontmatter":{},"headers":[],"relativePath":"packages/spi/index.md","filePath":"packages/spi/README.md"}');
const _sfc_main = { name: "packages/spi/index.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="spi" tabindex="-1">spi <a class="header-anchor" href="#spi" aria-label="Permalink to &quot;spi&quot;">​</a></h1><p>The interfaces of all slots. The package contains no implementation. Each folder of <code>src</code> is one slot:</p><table tabindex="0"><thead><tr><th>file</th><th>content</th></tr></thead><tbody><tr><td><code>&lt;slot&gt;/&lt;slot&gt;.ts</code></td><td>the interface with its guarantees and errors, the slot (<code>slot.one</code>, <code>slot.chain</code> or <code>slot.named</code>), and the error class</td></tr><tr><td><code>&lt;slot&gt;/contract/contract.ts</code></td><td>the contract suite, which every plugin of the slot must pass; exported as <code>@oarlock/spi/&lt;slot&gt;/contract</code></td></tr><tr><td><code>&lt;slot&gt;/contract/harness.ts</code></td><td>the fixture that a plugin supplies to the suite, and the tools of the suite&#39;s tests</td></tr></tbody></table><p><a href="https://github.com/oarlock/oarlock/tree/main/docs/slots" target="_blank" rel="noreferrer">docs/slots</a> has a page per slot for authors of plugins.</p><p>The composition fills these slots itself, and plugins name them in <code>needs</code>: <code>client</code> (client, informers, events), <code>cluster</code> (facts and keys), <code>loopback</code>, <code>local-nodes</code>, <code>process</code> and <code>spans</code>. <code>paths</code> is for non-resource paths of the API server.</p><p><code>test/scenarios/contracts-detect-faults.test.ts</code> runs the suites with broken implementations and asserts that each fault is detected. <code>test/scenarios/reference-implementations.test.ts</code> runs them with minimal correct ones.</p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("packages/spi/README.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const README = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  README as default
};
