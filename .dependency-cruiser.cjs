/** The table of docs/architecture.md as rules: who may import whom. An exception needs an ADR. */
const serverPackages = '^packages/(apiserver|controllers|scheduler|kubelet|service-proxy|tracing)/';
const composition = '^packages/(cluster|cli|testing)/';
const only = (name, from, allowed, comment) => ({
  name, severity: 'error', comment,
  from: { path: `^packages/${from}/src/` },
  to: { path: '^(packages|plugins)/', pathNot: `^packages/(${[from, ...allowed].join('|')})/` },
});

module.exports = {
  forbidden: [
    { name: 'no-circular', severity: 'error', comment: 'modules form no cycles, types aside', from: {}, to: { circular: true, viaOnly: { dependencyTypesNot: ['type-only'] } } },
    only('api-is-alone', 'api', [], 'api imports nothing of ours'),
    only('kernel-is-alone', 'kernel', [], 'kernel imports nothing of ours'),
    only('spi-is-interfaces', 'spi', ['api', 'kernel'], 'spi names only api and kernel'),
    only('client-is-below', 'client', ['api', 'kernel', 'spi'], 'the client is a room of spi with two transports (ADR 2)'),
    only('mvcc-is-below', 'mvcc', ['kernel', 'spi'], 'what storage plugins share knows no server'),
    only('grpc-is-a-protocol', 'grpc', [], 'calls on a socket know nothing of ours'),
    only('csi-is-a-protocol', 'csi', ['grpc'], 'calls of a volume driver know no server'),
    only('network-policy-is-a-meaning', 'network-policy', ['api'], 'what policies mean knows no kernel and no server'),
    only('network-cni-is-shared', 'network-cni', ['api', 'kernel', 'spi'], 'what network plugins share knows no server'),
    only('service-rules-are-shared', 'service-rules', ['kernel', 'spi'], 'what proxy plugins share knows no server'),
    only('tracing-is-below', 'tracing', ['api', 'kernel', 'spi'], 'tracing knows no server'),
    only('spdy-is-a-protocol', 'spdy', [], 'bytes on a socket know nothing of ours'),
    only('cel-is-a-language', 'cel', ['api'], 'expressions know no server'),
    only('admission-rules-are-shared', 'admission-rules', ['api', 'kernel', 'spi', 'cel'], 'what admission plugins share knows no server'),
    only('apiserver-knows-no-client', 'apiserver', ['api', 'kernel', 'spi', 'cel'], 'the loop closes only as a new request'),
    only('scheduler-knows-no-server', 'scheduler', ['api', 'kernel', 'spi', 'client', 'cel'], 'roles meet only through the API'),
    ...['controllers', 'kubelet', 'service-proxy'].map((name) => only(`${name}-knows-no-server`, name, ['api', 'kernel', 'spi', 'client', 'spdy', ...(name === 'kubelet' ? ['grpc'] : [])], 'roles meet only through the API')),
    { name: 'plugins-are-strangers', severity: 'error', comment: 'plugins import neither each other nor a server package', from: { path: '^plugins/([^/]+)/src/' }, to: { path: '^plugins/', pathNot: '^plugins/$1/' } },
    { name: 'plugins-know-spi-only', severity: 'error', comment: 'plugins reach the API through needs', from: { path: '^plugins/[^/]+/src/' }, to: { path: `${serverPackages}|${composition}` } },
    { name: 'tsyringe-in-kernel-only', severity: 'error', comment: 'the kernel alone imports the container', from: { path: '^(packages|plugins)/', pathNot: '^packages/kernel/src/container' }, to: { path: 'node_modules/tsyringe/' } },
    { name: 'e2e-is-outside', severity: 'error', comment: 'e2e speaks HTTP and processes only', from: { path: '^e2e/', pathNot: '^e2e/bench/' }, to: { path: '^(packages|plugins)/[^/]+/src/' } },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    exclude: { path: '(^|/)(dist|bundle|generated)/' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: { exportsFields: ['exports'], conditionNames: ['@oarlock/source', 'import', 'node', 'default'], extensions: ['.ts', '.js', '.mjs', '.json'] },
  },
};
