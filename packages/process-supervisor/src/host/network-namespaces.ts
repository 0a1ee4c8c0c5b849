import { execFile } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { promisify } from 'node:util';
import { SupervisorError } from '../protocol/supervisor-protocol.ts';
import { findProgram } from './host-tools.ts';

const run = promisify(execFile);
const timeout = 10_000;

/** Makes a directory a shared mount, as `ip netns` does, so that its namespaces are also in other mount namespaces. MOUNT DIRECTORY */
const share = `"$1" --make-rshared "$2" 2>/dev/null || { "$1" --rbind "$2" "$2" && "$1" --make-rshared "$2"; }`;

/** Creates network namespaces that `ip netns` lists and deletes. The supervisor does it, because a small process forks faster than a kubelet. */
export class NetworkNamespaces {
  #shared: Promise<unknown> | undefined;

  /** Creates a network namespace whose interface `lo` is up. After an error, the file may exist. @throws SupervisorError */
  async create(path: string): Promise<void> {
    const [unshare, ip, mount] = ['unshare', 'ip', 'mount'].map(findProgram);
    if (unshare === undefined || ip === undefined || mount === undefined)
      throw new SupervisorError('FailedPrecondition', 'network namespaces need unshare and mount (util-linux) and ip (iproute2)');
    try {
      this.#shared ??= makeShared(dirname(path), mount);
      await this.#shared;
      writeFileSync(path, '', { flag: 'wx', mode: 0o444 });
      await run(unshare, [`--net=${path}`, '--', ip, 'link', 'set', 'lo', 'up'], { timeout });
    } catch (cause) {
      this.#shared = undefined;
      throw new SupervisorError('Internal', `cannot create the network namespace ${basename(path)}: ${(cause as Error).message}`, {
        cause,
      });
    }
  }
}

async function makeShared(directory: string, mount: string): Promise<void> {
  mkdirSync(directory, { recursive: true, mode: 0o755 });
  await run('/bin/sh', ['-c', share, 'oarlock', mount, directory], { timeout });
}
