import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"controller-kit/src/type-declarations","description":"","frontmatter":{},"headers":[],"relativePath":"api/controller-kit/src/type-declarations.md","filePath":"api/controller-kit/src/type-declarations.md"}');
const _sfc_main = { name: "api/controller-kit/src/type-declarations.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="controller-kitsrctype-declarations" tabindex="-1">controller-kit/src/type-declarations <a class="header-anchor" href="#controller-kitsrctype-declarations" aria-label="Permalink to &quot;controller-kit/src/type-declarations&quot;">​</a></h1><h2 id="functions" tabindex="-1">Functions <a class="header-anchor" href="#functions" aria-label="Permalink to &quot;Functions&quot;">​</a></h2><h3 id="typedeclarations" tabindex="-1">typeDeclarations() <a class="header-anchor" href="#typedeclarations" aria-label="Permalink to &quot;typeDeclarations()&quot;">​</a></h3><blockquote><p><strong>typeDeclarations</strong>(<code>definitions</code>): <code>string</code></p></blockquote><p>Returns a TypeScript module with the types and the <code>Resource</code> handles of the served versions of definitions. The stored version has the name of the kind, other versions also their own name: <code>Website</code>, <code>WebsiteV1beta1</code>. The text is the same for equal definitions.</p><h4 id="parameters" tabindex="-1">Parameters <a class="header-anchor" href="#parameters" aria-label="Permalink to &quot;Parameters&quot;">​</a></h4><h5 id="definitions" tabindex="-1">definitions <a class="header-anchor" href="#definitions" aria-label="Permalink to &quot;definitions&quot;">​</a></h5><p>readonly <code>CustomResourceDefinition</code>[]</p><h4 id="returns" tabindex="-1">Returns <a class="header-anchor" href="#returns" aria-label="Permalink to &quot;Returns&quot;">​</a></h4><p><code>string</code></p><h4 id="throws" tabindex="-1">Throws <a class="header-anchor" href="#throws" aria-label="Permalink to &quot;Throws&quot;">​</a></h4><p>Error if two definitions declare the same name, or if a name cannot be an identifier</p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("api/controller-kit/src/type-declarations.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const typeDeclarations = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  typeDeclarations as default
};
