/** The pressure conditions of a node: MemoryPressure, DiskPressure and PIDPressure. */
export interface NodePressure {
  readonly memory: boolean;
  readonly disk: boolean;
  readonly pids: boolean;
}
export const noPressure: NodePressure = { memory: false, disk: false, pids: false };
