import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"kernel/src/known-keys","description":"","frontmatter":{},"headers":[],"relativePath":"api/kernel/src/known-keys.md","filePath":"api/kernel/src/known-keys.md"}');
const _sfc_main = { name: "api/kernel/src/known-keys.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="kernelsrcknown-keys" tabindex="-1">kernel/src/known-keys <a class="header-anchor" href="#kernelsrcknown-keys" aria-label="Permalink to &quot;kernel/src/known-keys&quot;">​</a></h1><h2 id="functions" tabindex="-1">Functions <a class="header-anchor" href="#functions" aria-label="Permalink to &quot;Functions&quot;">​</a></h2><h3 id="closestword" tabindex="-1">closestWord() <a class="header-anchor" href="#closestword" aria-label="Permalink to &quot;closestWord()&quot;">​</a></h3><blockquote><p><strong>closestWord</strong>(<code>word</code>, <code>candidates</code>): <code>string</code> | <code>undefined</code></p></blockquote><p>Returns the candidate with the smallest edit distance to <code>word</code>, or undefined if no candidate is close enough to assume a typing error.</p><h4 id="parameters" tabindex="-1">Parameters <a class="header-anchor" href="#parameters" aria-label="Permalink to &quot;Parameters&quot;">​</a></h4><h5 id="word" tabindex="-1">word <a class="header-anchor" href="#word" aria-label="Permalink to &quot;word&quot;">​</a></h5><p><code>string</code></p><h5 id="candidates" tabindex="-1">candidates <a class="header-anchor" href="#candidates" aria-label="Permalink to &quot;candidates&quot;">​</a></h5><p>readonly <code>string</code>[]</p><h4 id="returns" tabindex="-1">Returns <a class="header-anchor" href="#returns" aria-label="Permalink to &quot;Returns&quot;">​</a></h4><p><code>string</code> | <code>undefined</code></p><hr><h3 id="knownkeys" tabindex="-1">knownKeys() <a class="header-anchor" href="#knownkeys" aria-label="Permalink to &quot;knownKeys()&quot;">​</a></h3><blockquote><p><strong>knownKeys</strong>(<code>schema</code>, <code>path</code>): readonly <code>string</code>[]</p></blockquote><p>Returns the keys that a schema accepts at a path, as candidates for a suggestion in an error message.</p><h4 id="parameters-1" tabindex="-1">Parameters <a class="header-anchor" href="#parameters-1" aria-label="Permalink to &quot;Parameters&quot;">​</a></h4><h5 id="schema" tabindex="-1">schema <a class="header-anchor" href="#schema" aria-label="Permalink to &quot;schema&quot;">​</a></h5><p><code>Schema</code></p><h5 id="path" tabindex="-1">path <a class="header-anchor" href="#path" aria-label="Permalink to &quot;path&quot;">​</a></h5><p>readonly <code>PropertyKey</code>[]</p><h4 id="returns-1" tabindex="-1">Returns <a class="header-anchor" href="#returns-1" aria-label="Permalink to &quot;Returns&quot;">​</a></h4><p>readonly <code>string</code>[]</p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("api/kernel/src/known-keys.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const knownKeys = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  knownKeys as default
};
