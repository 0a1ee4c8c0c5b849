/**
 * Which package may import which other package. The lint rules of .dependency-cruiser.cjs and the table in docs/architecture.md come from this file. An
 * exception needs an ADR. The composition roots may import every package.
 */
const servers = ['apiserver', 'controllers', 'scheduler', 'kubelet', 'service-proxy', 'tracing'];
const mayImport = {
  primitives: [],
  api: [],
  'console-page': ['primitives', 'api', 'network-policy', 'tracing'], // rules and span trees, without code that needs Node
  grpc: ['primitives'],
  spdy: [],
  kernel: ['primitives'],
  spi: ['primitives', 'api', 'kernel'],
  client: ['primitives', 'api', 'kernel', 'spi'],
  'controller-kit': ['primitives', 'api', 'kernel', 'spi'],
  csi: ['grpc'],
  cel: ['api'],
  nftables: ['primitives', 'kernel'],
  mvcc: ['primitives', 'kernel', 'spi'],
  oci: ['primitives', 'api', 'kernel', 'spi'],
  tracing: ['primitives', 'api', 'kernel', 'spi'],
  'webhook-client': ['primitives', 'api', 'kernel', 'spi'],
  'webhook-server': ['primitives', 'api', 'kernel', 'spi', 'client'],
  'admission-rules': ['primitives', 'api', 'kernel', 'spi', 'cel'],
  'network-policy': ['api'],
  'network-cni': ['primitives', 'api', 'kernel', 'spi'],
  'process-supervisor': ['primitives', 'api', 'kernel', 'spi'],
  'service-rules': ['primitives', 'kernel', 'spi'],
  apiserver: ['primitives', 'api', 'kernel', 'spi', 'cel'],
  controllers: ['primitives', 'api', 'kernel', 'spi', 'client', 'spdy', 'admission-rules'],
  scheduler: ['primitives', 'api', 'kernel', 'spi', 'client', 'cel'],
  kubelet: ['primitives', 'api', 'kernel', 'spi', 'client', 'spdy', 'grpc'],
  'service-proxy': ['primitives', 'api', 'kernel', 'spi', 'client', 'spdy'],
  'component-server': ['primitives', 'api', 'kernel', 'spi', 'client', 'controllers', 'scheduler'],
};
const compositionRoots = ['cluster', 'cli', 'testing'];
/** Packages that no plugin imports: a plugin gets its API client, informers and events from `needs`. */
const closedToPlugins = ['client', ...servers, ...compositionRoots];


module.exports = { mayImport, servers, compositionRoots, closedToPlugins };
