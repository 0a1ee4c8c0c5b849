// `npm run differ [-- --reference KUBECONFIG ...]`: compares the answers of two clusters, or of one cluster with each other. See docs/differ.md.
import { root, run, setup } from './setup.mjs';

await setup({ system: false });
const source = ['--conditions=@oarlock/source', '--import', '@oxc-node/core/register'];
const { code } = await run(process.execPath, [...source, 'e2e/differ/main.ts', ...process.argv.slice(2)], { show: true, cwd: root });
process.exit(code);
