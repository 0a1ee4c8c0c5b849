import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"nftables","description":"","frontmatter":{},"headers":[],"relativePath":"packages/nftables/index.md","filePath":"packages/nftables/README.md"}');
const _sfc_main = { name: "packages/nftables/index.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="nftables" tabindex="-1">nftables <a class="header-anchor" href="#nftables" aria-label="Permalink to &quot;nftables&quot;">​</a></h1><p>Packet rules with nftables: runs commands as one transaction (<code>nft.ts</code>), checks availability (<code>availability.ts</code>), and counts objects in the kernel (<code>object-counts.ts</code>).</p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("packages/nftables/README.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const README = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  README as default
};
