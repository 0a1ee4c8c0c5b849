import { StatusError } from '../../status.ts';
import { pathText, type PathElement } from './field-path.ts';
import type { Manager } from '../managers.ts';

/** A field that the write would change and another manager owns. */
export interface FieldConflict {
  readonly manager: Manager;
  readonly path: readonly PathElement[];
}

/** Thrown by an apply that is not forced and changes fields of other managers. */
export class FieldConflicts extends Error {
  override readonly name = 'FieldConflicts';
  readonly conflicts: readonly FieldConflict[];
  constructor(conflicts: readonly FieldConflict[]) {
    super(messageOf(conflicts));
    this.conflicts = conflicts;
  }

  /** Returns the 409 status with a cause for each field. */
  status(): StatusError {
    return new StatusError(
      {
        kind: 'Status',
        apiVersion: 'v1',
        metadata: {},
        status: 'Failure',
        message: this.message,
        reason: 'Conflict',
        details: {
          causes: this.conflicts.map(({ manager, path }) => ({
            reason: 'FieldManagerConflict',
            message: `conflict with ${managerText(manager)}`,
            field: pathText(path),
          })),
        },
        code: 409,
      },
      { cause: this },
    );
  }
}

function managerText({ manager, operation, apiVersion, subresource }: Manager): string {
  const name = `${JSON.stringify(manager)}${subresource === '' ? '' : ` with subresource ${JSON.stringify(subresource)}`}`;
  return operation === 'Update' ? `${name} using ${apiVersion}` : name;
}

function messageOf(conflicts: readonly FieldConflict[]): string {
  const [only] = conflicts;
  if (conflicts.length === 1 && only !== undefined)
    return `Apply failed with 1 conflict: conflict with ${managerText(only.manager)}: ${pathText(only.path)}`;
  const byManager = new Map<Manager, string[]>();
  for (const { manager, path } of conflicts) {
    const paths = byManager.get(manager);
    if (paths === undefined) byManager.set(manager, [pathText(path)]);
    else paths.push(pathText(path));
  }
  const lines = [...byManager].flatMap(([manager, paths]) => [
    `conflicts with ${managerText(manager)}:`,
    ...paths.map((path) => `- ${path}`),
  ]);
  return `Apply failed with ${conflicts.length} conflicts: ${lines.join('\n')}`;
}
