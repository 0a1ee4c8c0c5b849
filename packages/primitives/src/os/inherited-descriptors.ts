import { closeSync, readdirSync, readFileSync } from 'node:fs';

const table = '/proc/self/fdinfo';
const closeOnExec = 0o2000000;
const firstAfterStdio = 3;

/**
 * Closes the file descriptors that this process has from the program that started it and would pass on to its own children, all but stdin, stdout and stderr.
 * Node.js marks those of its own as closed on exec, and of inherited ones only the first 16 and those that follow without a gap. Linux only: elsewhere a
 * process cannot list the flags of its descriptors.
 */
export function closeInheritedDescriptors(): void {
  if (process.platform !== 'linux') return;
  for (const name of readdirSync(table)) {
    const descriptor = Number(name);
    if (descriptor >= firstAfterStdio && isInheritable(name)) closeSync(descriptor);
  }
}

function isInheritable(name: string): boolean {
  try {
    const [, flags = ''] = /^flags:\s+([0-7]+)$/m.exec(readFileSync(`${table}/${name}`, 'utf8')) ?? [];
    return (Number.parseInt(flags, 8) & closeOnExec) === 0;
  } catch (error) {
    // the descriptor with which the directory was read
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw error;
  }
}
