import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"controller-kit/src/structural-schema","description":"","frontmatter":{},"headers":[],"relativePath":"api/controller-kit/src/structural-schema.md","filePath":"api/controller-kit/src/structural-schema.md"}');
const _sfc_main = { name: "api/controller-kit/src/structural-schema.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="controller-kitsrcstructural-schema" tabindex="-1">controller-kit/src/structural-schema <a class="header-anchor" href="#controller-kitsrcstructural-schema" aria-label="Permalink to &quot;controller-kit/src/structural-schema&quot;">​</a></h1><h2 id="type-aliases" tabindex="-1">Type Aliases <a class="header-anchor" href="#type-aliases" aria-label="Permalink to &quot;Type Aliases&quot;">​</a></h2><h3 id="writableschema" tabindex="-1">WritableSchema <a class="header-anchor" href="#writableschema" aria-label="Permalink to &quot;WritableSchema&quot;">​</a></h3><blockquote><p><strong>WritableSchema</strong> = <code>{ -readonly [K in keyof JSONSchemaProps]: JSONSchemaProps[K] }</code> &amp; <code>Record</code>&lt;<code>string</code>, <code>unknown</code>&gt;</p></blockquote><p>JSON Schema in the OpenAPI 3.0 form that zod writes.</p><h2 id="functions" tabindex="-1">Functions <a class="header-anchor" href="#functions" aria-label="Permalink to &quot;Functions&quot;">​</a></h2><h3 id="structuralschema" tabindex="-1">structuralSchema() <a class="header-anchor" href="#structuralschema" aria-label="Permalink to &quot;structuralSchema()&quot;">​</a></h3><blockquote><p><strong>structuralSchema</strong>(<code>type</code>, <code>path?</code>): <code>JSONSchemaProps</code></p></blockquote><p>Returns the structural schema (KEP-1693) that accepts what a zod schema accepts. Fields with a default are optional, because the API server sets the default.</p><h4 id="parameters" tabindex="-1">Parameters <a class="header-anchor" href="#parameters" aria-label="Permalink to &quot;Parameters&quot;">​</a></h4><h5 id="type" tabindex="-1">type <a class="header-anchor" href="#type" aria-label="Permalink to &quot;type&quot;">​</a></h5><p><code>ZodType</code></p><h5 id="path" tabindex="-1">path? <a class="header-anchor" href="#path" aria-label="Permalink to &quot;path?&quot;">​</a></h5><p><code>string</code> = <code>&#39;&#39;</code></p><h4 id="returns" tabindex="-1">Returns <a class="header-anchor" href="#returns" aria-label="Permalink to &quot;Returns&quot;">​</a></h4><p><code>JSONSchemaProps</code></p><h4 id="throws" tabindex="-1">Throws <a class="header-anchor" href="#throws" aria-label="Permalink to &quot;Throws&quot;">​</a></h4><p>SchemaError if the zod schema has a part that a CustomResourceDefinition cannot express, such as a refinement</p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("api/controller-kit/src/structural-schema.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const structuralSchema = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  structuralSchema as default
};
