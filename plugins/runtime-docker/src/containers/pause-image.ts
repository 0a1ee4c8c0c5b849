import { RuntimeError, type RuntimeCallOptions } from '@oarlock/spi/runtime';
import type { EngineClient } from '../engine/engine-client.ts';
import { hasCode } from '../engine/engine-errors.ts';

/** The sandbox image if the configuration names none. The plugin builds the image, so that a node can start without a registry. */
export const ownPauseImage = 'oarlock/pause:1';

interface Machine {
  /** The value of `e_machine` in the ELF header. */
  readonly elf: number;
  readonly code: Buffer;
}
const words = (...instructions: readonly number[]) => Buffer.concat(instructions.map((word) => Buffer.from(Uint32Array.of(word).buffer)));

/**
 * The machine code of the pause program: ignores SIGCHLD, so that the kernel reaps orphans of the pod, and waits until SIGKILL. A kernel `sigaction`
 * with SIG_IGN follows the code.
 */
const machines: Readonly<Record<string, Machine>> = {
  x64: {
    elf: 62,
    code: Buffer.from(
      [
        'b80d000000', // mov eax, rt_sigaction
        'bf11000000', // mov edi, SIGCHLD
        '488d3517000000', // lea rsi, [rip+23]
        '31d2', // xor edx, edx
        '41ba08000000', // mov r10d, 8
        '0f05', // syscall
        'b822000000', // mov eax, pause
        '0f05', // syscall
        'ebf7', // jmp to pause
        '00000000', // to a multiple of 8
      ].join(''),
      'hex',
    ),
  },
  arm64: {
    elf: 183,
    code: words(
      0xd2800220, // mov x0, SIGCHLD
      0x100001a1, // adr x1, the action
      0xd2800002, // mov x2, 0
      0xd2800103, // mov x3, 8
      0xd28010c8, // mov x8, rt_sigaction
      0xd4000001, // svc
      0xd2800000, // mov x0, 0
      0xd2800001, // mov x1, 0
      0xd2800002, // mov x2, 0
      0xd2800003, // mov x3, 0
      0xd2800928, // mov x8, ppoll
      0xd4000001, // svc
      0x17fffffa, // b to the wait
      0, // to a multiple of 8
    ),
  },
};

/** Returns a static ELF program for an architecture. @throws RuntimeError `Unsupported` if the architecture is not known */
export function pauseProgram(architecture: string = process.arch): Buffer {
  const machine = machines[architecture];
  if (!machine)
    throw new RuntimeError(
      'Unsupported',
      `there is no pause program for ${architecture}: name an image in runtime-docker's \`sandboxImage\``,
    );
  const headers = 64 + 56;
  const address = 0x400000n;
  const sigaction = Buffer.alloc(32);
  sigaction.writeBigUInt64LE(1n); // SIG_IGN, no flags, no restorer, no mask
  const size = BigInt(headers + machine.code.length + sigaction.length);
  const head = Buffer.alloc(headers);
  Buffer.from('7f454c4602010100', 'hex').copy(head); // 64 bits, little endian, System V
  head.writeUInt16LE(2, 16); // an executable
  head.writeUInt16LE(machine.elf, 18);
  head.writeUInt32LE(1, 20);
  head.writeBigUInt64LE(address + BigInt(headers), 24); // entry
  head.writeBigUInt64LE(64n, 32); // program headers
  head.writeUInt16LE(64, 52);
  head.writeUInt16LE(56, 54);
  head.writeUInt16LE(1, 56); // number of program headers
  head.writeUInt32LE(1, 64); // to be loaded
  head.writeUInt32LE(5, 68); // readable, executable
  head.writeBigUInt64LE(address, 80);
  head.writeBigUInt64LE(address, 88);
  head.writeBigUInt64LE(size, 96);
  head.writeBigUInt64LE(size, 104);
  head.writeBigUInt64LE(0x1000n, 112);
  return Buffer.concat([head, machine.code, sigaction]);
}

/** Returns a ustar archive with one executable file. */
function archive(name: string, bytes: Buffer): Buffer {
  const header = Buffer.alloc(512);
  header.write(name, 0);
  header.write('0000755\0', 100);
  header.write('0000000\0', 108);
  header.write('0000000\0', 116);
  header.write(`${bytes.length.toString(8).padStart(11, '0')}\0`, 124);
  header.write('00000000000\0', 136);
  header.write('        0', 148);
  header.write('ustar\x0000', 257);
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
  return Buffer.concat([header, bytes, Buffer.alloc((512 - (bytes.length % 512)) % 512), Buffer.alloc(1024)]);
}

/** Imports the built-in pause image, unless the engine already has it. */
export async function ensureOwnPauseImage(engine: EngineClient, { signal }: RuntimeCallOptions): Promise<void> {
  try {
    await engine.call('GET', `/images/${ownPauseImage}/json`, { signal });
    return;
  } catch (error) {
    if (!hasCode(error, 'NotFound')) throw error;
  }
  const [repo, tag] = ownPauseImage.split(':');
  await engine.call('POST', '/images/create', {
    query: { fromSrc: '-', repo, tag, changes: 'ENTRYPOINT ["/pause"]' },
    body: archive('pause', pauseProgram()),
    signal,
  });
}
