import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

/** How long tasks waited: the percentage of time over the last 10, 60 and 300 seconds, and the total in microseconds. */
export interface PressureData {
  readonly total: number;
  readonly avg10: number;
  readonly avg60: number;
  readonly avg300: number;
}

/** The pressure on one resource. `full`: no task could make progress. `some`: at least one task waited. */
export interface ResourcePressure {
  readonly full: PressureData;
  readonly some: PressureData;
}

const resources = ['cpu', 'memory', 'io'] as const;

/** Pressure stall information (KEP-4205). A resource is absent if the kernel does not report it. */
export type Pressure = Readonly<Partial<Record<(typeof resources)[number], ResourcePressure>>>;

/** The pressure in a cgroup and in its direct children, which are keyed by the names of their directories. */
export interface CgroupPressure {
  readonly own: Pressure;
  readonly children: ReadonlyMap<string, Pressure>;
}

const none: PressureData = { total: 0, avg10: 0, avg60: 0, avg300: 0 };

function dataIn(text: string, kind: keyof ResourcePressure): PressureData | undefined {
  const match = new RegExp(`^${kind} avg10=([\\d.]+) avg60=([\\d.]+) avg300=([\\d.]+) total=(\\d+)$`, 'm').exec(text);
  if (match === null) return undefined;
  const [avg10 = 0, avg60 = 0, avg300 = 0, total = 0] = match.slice(1).map(Number);
  return { total, avg10, avg60, avg300 };
}

/** Parses the text of a pressure file. Before Linux 5.13, the file of the CPU has no line `full`. https://docs.kernel.org/accounting/psi.html */
export function parsePressure(text: string): ResourcePressure | undefined {
  const some = dataIn(text, 'some');
  return some && { full: dataIn(text, 'full') ?? none, some };
}

/** Reads the pressure of each resource. A file that cannot be read, as without support of the kernel, reports nothing. */
async function readPressure(fileOf: (resource: string) => string): Promise<Pressure> {
  const found = await Promise.all(
    resources.map(async (resource) => {
      const text = await readFile(fileOf(resource), 'utf8').catch(() => '');
      const pressure = parsePressure(text);
      return pressure === undefined ? [] : [[resource, pressure] as const];
    }),
  );
  return Object.fromEntries(found.flat());
}

/** Returns the pressure of the machine. */
export const machinePressure = (proc = '/proc'): Promise<Pressure> => readPressure((resource) => join(proc, 'pressure', resource));

/** Returns the pressure of a cgroup v2. */
export const cgroupPressure = (directory: string): Promise<Pressure> => readPressure((resource) => join(directory, `${resource}.pressure`));
