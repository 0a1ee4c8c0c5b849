import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"client/src/cache/reflector-errors","description":"","frontmatter":{},"headers":[],"relativePath":"api/client/src/cache/reflector-errors.md","filePath":"api/client/src/cache/reflector-errors.md"}');
const _sfc_main = { name: "api/client/src/cache/reflector-errors.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="clientsrccachereflector-errors" tabindex="-1">client/src/cache/reflector-errors <a class="header-anchor" href="#clientsrccachereflector-errors" aria-label="Permalink to &quot;client/src/cache/reflector-errors&quot;">​</a></h1><h2 id="functions" tabindex="-1">Functions <a class="header-anchor" href="#functions" aria-label="Permalink to &quot;Functions&quot;">​</a></h2><h3 id="isstreamretriable" tabindex="-1">isStreamRetriable() <a class="header-anchor" href="#isstreamretriable" aria-label="Permalink to &quot;isStreamRetriable()&quot;">​</a></h3><blockquote><p><strong>isStreamRetriable</strong>(<code>error</code>): <code>boolean</code></p></blockquote><p>Returns true if a list would fail as the stream did, or if another stream can succeed: the server is not reachable, limits the request rate, does not serve the resource, or does not have the resourceVersion.</p><h4 id="parameters" tabindex="-1">Parameters <a class="header-anchor" href="#parameters" aria-label="Permalink to &quot;Parameters&quot;">​</a></h4><h5 id="error" tabindex="-1">error <a class="header-anchor" href="#error" aria-label="Permalink to &quot;error&quot;">​</a></h5><p><code>unknown</code></p><h4 id="returns" tabindex="-1">Returns <a class="header-anchor" href="#returns" aria-label="Permalink to &quot;Returns&quot;">​</a></h4><p><code>boolean</code></p><hr><h3 id="istoolargeversion" tabindex="-1">isTooLargeVersion() <a class="header-anchor" href="#istoolargeversion" aria-label="Permalink to &quot;isTooLargeVersion()&quot;">​</a></h3><blockquote><p><strong>isTooLargeVersion</strong>(<code>error</code>): <code>boolean</code></p></blockquote><p>Returns true if the requested resourceVersion is newer than the server&#39;s: the server lost its state.</p><h4 id="parameters-1" tabindex="-1">Parameters <a class="header-anchor" href="#parameters-1" aria-label="Permalink to &quot;Parameters&quot;">​</a></h4><h5 id="error-1" tabindex="-1">error <a class="header-anchor" href="#error-1" aria-label="Permalink to &quot;error&quot;">​</a></h5><p><code>unknown</code></p><h4 id="returns-1" tabindex="-1">Returns <a class="header-anchor" href="#returns-1" aria-label="Permalink to &quot;Returns&quot;">​</a></h4><p><code>boolean</code></p></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("api/client/src/cache/reflector-errors.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const reflectorErrors = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  reflectorErrors as default
};
