import { Gauge, type Registry } from 'prom-client';

/** The labels of upstream's build information. Labels that describe a compilation are empty. */
const buildLabels = {
  git_commit: '',
  git_tree_state: '',
  build_date: '',
  go_version: '',
  compiler: '',
  platform: `linux/${process.arch === 'x64' ? 'amd64' : process.arch}`,
};

/** Registers the metric that describes the version of the server. */
export function registerBuildInfo(registry: Registry, version: string): void {
  const [major = '', minor = ''] = /^v(\d+)\.(\d+)/.exec(version)?.slice(1) ?? [];
  new Gauge({
    name: 'kubernetes_build_info',
    help: 'Always 1; the labels describe the version of this server.',
    labelNames: ['major', 'minor', 'git_version', 'git_commit', 'git_tree_state', 'build_date', 'go_version', 'compiler', 'platform'],
    registers: [registry],
  }).set({ major, minor, git_version: version, ...buildLabels }, 1);
}
