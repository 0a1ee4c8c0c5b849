import type { Clock } from '@oarlock/primitives/clock';
import { runProgram } from '@oarlock/primitives/os/run-program';
import { podRouteProtocol } from '../dataplane/data-plane.ts';

const timeoutMs = 10_000;

/**
 * Programs blackhole routes for the node's blocks, so that packets to unassigned addresses are dropped instead of looping between nodes.
 * @throws Error if a command fails
 */
export async function syncBlackholeRoutes(clock: Clock, ranges: readonly string[]): Promise<void> {
  const desired = new Set(ranges);
  const lists = await Promise.all(
    ['-4', '-6'].map(async (family) => {
      const { stdout } = await runProgram(clock, 'ip', ['-j', family, 'route', 'show', 'proto', podRouteProtocol], { timeoutMs });
      return stdout.trim() === '' ? [] : (JSON.parse(stdout) as readonly { readonly type?: string; readonly dst: string }[]);
    }),
  );
  const existing = new Set(lists.flat().flatMap(({ type, dst }) => (type === 'blackhole' ? [dst] : [])));
  const lines = [
    ...[...existing].filter((range) => !desired.has(range)).map((range) => `route del blackhole ${range} proto ${podRouteProtocol}`),
    ...[...desired].filter((range) => !existing.has(range)).map((range) => `route replace blackhole ${range} proto ${podRouteProtocol}`),
  ];
  if (lines.length === 0) return;
  const { exitCode, stderr, killed } = await runProgram(clock, 'ip', ['-batch', '-'], { stdin: `${lines.join('\n')}\n`, timeoutMs });
  if (exitCode !== 0) throw new Error(`${lines.join('; ')}: ${killed ?? stderr.trim().slice(0, 300)}`);
}
