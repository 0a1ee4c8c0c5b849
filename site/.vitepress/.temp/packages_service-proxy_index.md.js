import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"service-proxy","description":"","frontmatter":{},"headers":[],"relativePath":"packages/service-proxy/index.md","filePath":"packages/service-proxy/README.md"}');
const _sfc_main = { name: "packages/service-proxy/index.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="service-proxy" tabindex="-1">service-proxy <a class="header-anchor" href="#service-proxy" aria-label="Permalink to &quot;service-proxy&quot;">​</a></h1><p>The role <code>proxy</code>: applies Services and EndpointSlices to a node&#39;s service proxy (<code>proxy/v1</code>) and cluster DNS (<code>dns/v1</code>).</p><table tabindex="0"><thead><tr><th>module</th><th>content</th></tr></thead><tbody><tr><td><code>service-proxy-controller</code></td><td>converts changes of Services and slices to changed ports, applied together and at most every <code>minSyncMs</code></td></tr><tr><td><code>endpoints/service-ports</code>, <code>endpoints/categorize-endpoints</code></td><td>the ports of a Service, and their endpoints: ready, local, by topology hints</td></tr><tr><td><code>dns/cluster-dns-controller</code>, <code>dns/dns-records</code></td><td>the DNS records of Services and endpoints</td></tr><tr><td><code>dns/dns-service</code></td><td>the Service <code>kube-dns</code> with this node as an endpoint</td></tr><tr><td><code>health/proxy-health-server</code>, <code>health/service-health-server</code></td><td>health checks of load balancers: whether this node accepts traffic, and how many endpoints of a Service are on it</td></tr><tr><td><code>proxy-metrics</code></td><td>the metrics of kube-proxy</td></tr></tbody></table></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("packages/service-proxy/README.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const README = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  README as default
};
