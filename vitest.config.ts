import { defineConfig, type TestProjectInlineConfiguration } from 'vitest/config';
import { canIsolateNetwork, bareNetworkPool } from './tools/vitest/network-namespace-pool.ts';
import { builtPackages, builtFiles } from './tools/vitest/built-packages.ts';
import { longestFirst } from './tools/vitest/longest-first.ts';

const everything = ['tools/**/*.test.mjs', '{packages,plugins,examples/plugins}/*/test/**/*.test.ts'];
const inPackage = (...paths: string[]) => paths.map((path) => `**/test/**/${path}.test.ts`);
const inPackages = (names: string) => [`**/${names}/test/**/*.test.ts`];

/** They measure the process or block its event loop. */
const measured = inPackage('{request-bombs,cost-estimate,rule-validation,leaks,large-bodies,list-turns,workqueue}');
/** They mainly start daemons, clusters and processes. */
const withProcesses = inPackages('{cli,cluster,csi-hostpath,network-bridge,runtime-*,storage-etcd,storage-embedded,testing,volume-csi}');
/** Tests of those packages that start no daemons. Loading and compiling the modules of the packages is most of their cost, so they share a process. */
const withoutProcesses = [
  'cli/test/{completion,doctor,explain,status}/**/*',
  'cli/test/{common,dev}/*',
  'cli/test/nodes/rootless/relay/*',
  'cli/test/nodes/rootless/{rootless-problem,subordinate-users}',
  'cli/test/config/{config,edit-cluster-file,npm-install}',
  'cli/test/export/{component-manifests,required-rules}',
  'cluster/test/{configuration,hosting/internal,identity,paths,process,servers}/*',
  'cluster/test/pki/!(keys)',
  'cluster/test/composition/!(controller-rules|match-warnings)',
  'cluster/test/workers/{process-calls,remote-audit,remote-paths}',
  'runtime-{docker,process}/test/scenarios/pure-functions',
  'runtime-docker/test/engine/*',
  'runtime-oci/test/{spec,images,containers,modes}/*',
  'storage-embedded/test/plugin',
  'storage-etcd/test/{client,rpc,s3}/*',
  'storage-etcd/test/managed/{maintenance,member-program,membership,waiting-reason}',
  'testing/test/*',
  'testing/test/scenarios/!(plugin-hosting|request-bombs)',
  'volume-csi/test/{driver,node,registration,scenarios,sidecars}/*',
].map((path) => `**/${path}.test.ts`);
/** They change rules and routes of the kernel. */
const inNetworks = [
  ...inPackage('node-routes', 'forwarding', 'nft', 'tap-device'),
  ...inPackages('{network-calico,policy-nftables,proxy-iptables,proxy-nftables}'),
];
/** Files that take more than fifteen seconds. They start first. */
const long = [
  'policy-nftables/test/calico-two-nodes',
  'policy-nftables/test/bridge-two-nodes',
  'policy-nftables/test/calico-one',
  'policy-nftables/test/bridge-one',
  'storage-etcd/test/scenarios/failures',
  'storage-etcd/test/contract',
  'runtime-oci/test/oci-runtime',
  'runtime-docker/test/docker-runtime',
  'cli/test/plugins-new',
  'network-bridge/test/contract',
  'testing/test/scenarios/plugin-hosting',
  'cluster/test/cluster-file/cluster-file',
  'runtime-containerd/test/containerd-runtime',
  'proxy-iptables/test/contract',
  'proxy-nftables/test/contract',
  'cli/test/backup/backup',
  'network-calico/test',
  'runtime-process/test/process-runtime',
  'storage-embedded/test/contract',
];

/** `npm run bench -- NAME --against COMMIT` keeps a checkout of that commit, with its tests, in `.reports`. */
const exclude = ['**/node_modules/**', '**/.reports/**'];
const fromSource = ['@oarlock/source', 'node', 'import', 'module', 'default'];
const fromDist = fromSource.slice(1);
const resolveBy = (conditions: string[]) => ({ resolve: { conditions }, ssr: { resolve: { conditions, externalConditions: conditions } } });
const source = { extends: true as const, ...resolveBy(fromSource) };
const dist = { extends: true as const, ...resolveBy(fromDist), plugins: [builtPackages] };
/** Two thirds of the processor time of sources. */
const external = { server: { deps: { external: [builtFiles] } } };

/**
 * Unit and contract tests of all packages: `vitest run` for all, `vitest run packages/cel` for one. Loading modules is most of the cost of a test file, so
 * files share a process unless they are named above. With `built`, tests load the packages from `dist`.
 */
export function unitTests(built: boolean) {
  const packages = built ? dist : source;
  const loading = built ? external : {};
  const projects: TestProjectInlineConfiguration[] = [
    {
      ...packages,
      test: {
        name: 'shared',
        include: everything,
        exclude: [...measured, ...withProcesses, ...inNetworks, ...exclude],
        isolate: false,
        ...loading,
      },
    },
    { ...packages, test: { name: 'parts', include: withoutProcesses, exclude, isolate: false, ...loading } },
    {
      ...packages,
      test: {
        name: 'alone',
        include: [...measured, ...withProcesses],
        exclude: [...withoutProcesses, ...inNetworks, ...exclude],
        ...loading,
      },
    },
    {
      ...packages,
      test: {
        name: 'networks',
        include: inNetworks,
        exclude,
        ...loading,
        // a file outside of a network namespace starts itself again in one: `inOwnNetwork` of @oarlock/testing
        ...(canIsolateNetwork && { pool: bareNetworkPool, env: { OARLOCK_TEST_NETWORK: 'own' } }),
      },
    },
  ];
  return defineConfig({
    test: {
      pool: 'forks',
      maxWorkers: 4,
      passWithNoTests: false,
      // `npm run stress -- FILE --yields 0.5`
      setupFiles: process.env['OARLOCK_RANDOM_YIELDS'] === undefined ? [] : ['tools/vitest/random-yields.ts'],
      sequence: { sequencer: longestFirst(long) },
      // a guard against hanging tests, not a measure: machines are slow and busy
      testTimeout: 300_000,
      hookTimeout: 300_000,
      expect: { poll: { timeout: 120_000 } },
      projects,
    },
  });
}

/** From source, so that a changed file needs no build. `vitest.built.config.ts` is what `npm test` runs. */
export default unitTests(false);
