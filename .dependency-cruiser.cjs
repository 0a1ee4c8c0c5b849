/** Boundaries between packages, from the table in tools/checks/boundaries.cjs. */
const { mayImport, closedToPlugins } = require('./tools/checks/boundaries.cjs');

const packagesOf = (names) => `^packages/(${names.join('|')})/`;
const layers = Object.entries(mayImport).map(([name, allowed]) => ({
  name: `${name}-imports`,
  severity: 'error',
  comment: allowed.length === 0 ? `${name} imports no other package` : `${name} may import ${allowed.join(', ')}`,
  from: { path: `^packages/${name}/src/` },
  to: { path: '^(packages|plugins)/', pathNot: packagesOf([name, ...allowed]) },
}));

module.exports = {
  forbidden: [
    { name: 'no-circular', severity: 'error', comment: 'modules form no cycles; type-only imports are checked by npm run structure', from: {}, to: { circular: true, viaOnly: { dependencyTypesNot: ['type-only'] } } },
    ...layers,
    { name: 'plugins-import-no-plugin', severity: 'error', comment: 'plugins do not import each other', from: { path: '^plugins/([^/]+)/src/' }, to: { path: '^plugins/', pathNot: '^plugins/$1/' } },
    { name: 'plugins-import-no-server-or-client', severity: 'error', comment: 'plugins get their API client, informers and events from needs', from: { path: '^plugins/[^/]+/src/' }, to: { path: packagesOf(closedToPlugins) } },
    { name: 'tsyringe-in-kernel-only', severity: 'error', comment: 'only the kernel imports the DI container', from: { path: '^(packages|plugins)/', pathNot: '^packages/kernel/src/internal/container' }, to: { path: 'node_modules/tsyringe/' } },
    { name: 'e2e-is-outside', severity: 'error', comment: 'e2e uses HTTP and processes only', from: { path: '^e2e/', pathNot: '^e2e/(bench|differ|fuzz)/' }, to: { path: '^(packages|plugins)/[^/]+/src/' } },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    exclude: { path: '(^|/)(dist|bundle|generated)/' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: { exportsFields: ['exports'], conditionNames: ['@oarlock/source', 'import', 'node', 'default'], extensions: ['.ts', '.js', '.mjs', '.json'] },
  },
};
