// Builds another commit of this repository beside the checkout, for comparisons and for upgrades from it.
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fail, root, run, step } from './setup.mjs';

/** Runs git and returns its output; exits if it fails. */
export async function git(...args) {
  const { code, output } = await run('git', args);
  if (code !== 0) fail(`git ${args.join(' ')} failed: ${output.trim()}`, 'Name a commit of this repository, such as main or v0.1.0.');
  return output.trim();
}

/** Returns a built checkout of the commit below .reports, which later runs use again. */
export async function checkoutOf(commit) {
  const hash = await git('rev-parse', '--verify', `${commit}^{commit}`);
  const dir = join(root, '.reports', 'against', hash.slice(0, 12));
  const built = join(dir, '.reports', 'built');
  if (existsSync(built)) return dir;
  if (!existsSync(dir)) await git('worktree', 'add', '--detach', dir, hash);
  const install = ['install', '--ignore-scripts', '--no-save', '--no-audit', '--no-fund', '--loglevel=error'];
  await step(`Installing packages of ${commit}`, () => run('npm', install, { cwd: dir }), `Remove ${dir} and try again.`);
  await step(`Building ${commit}`, () => run('npm', ['run', '-s', 'build'], { cwd: dir }), `The commit ${commit} does not build here.`);
  await run('mkdir', ['-p', join(dir, '.reports')]);
  writeFileSync(built, hash);
  return dir;
}
