import { stringifyExact } from '@oarlock/api/json/exact-json';
import type { ListMeta } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import type { Status } from '@oarlock/api/status';
import type { IncludeObject, ResponseEncoding } from './response-encoding.ts';
import { errorEventLine } from './internal/error-event.ts';
import type { ByteSink, EncodedObject, WatchFrame } from '../request/response.ts';
import { partialMetadataJson, metaApiVersion, type MetaVersion } from './internal/partial-object-metadata.ts';
import { printerFor } from './table/printers.ts';
import type { Printer } from './table/printer.ts';
import { scalePrinter } from './table/workloads.ts';

const comma = Buffer.from(',');

/** Encodes objects as rows of a `Table` of meta.k8s.io. Cells are computed for each request, because they contain ages. */
export class TableEncoding implements ResponseEncoding {
  readonly contentType = 'application/json';
  readonly streamType = 'application/json';
  readonly #printer: Printer;
  readonly #version: MetaVersion;
  readonly #include: IncludeObject;
  readonly #now: () => number;
  /** True after the first event of a watch, the only one that contains the column definitions. */
  #columnsSent = false;

  constructor(
    resource: Resource,
    version: MetaVersion,
    { includeObject, now }: { readonly includeObject: IncludeObject; readonly now: () => number },
  ) {
    this.#printer = printerFor(resource);
    this.#version = version;
    this.#include = includeObject;
    this.#now = now;
  }

  item(item: EncodedObject): Buffer {
    return Buffer.concat([this.#single(item, true), Buffer.from('\n')]);
  }

  listHead(metadata: ListMeta): Buffer {
    return Buffer.from(this.#head(metadata, true));
  }

  listItem(item: EncodedObject, first: boolean, sink: ByteSink): void {
    if (!first) sink.add(comma);
    for (const part of this.#row(item, this.#now())) sink.add(part);
  }

  listTail(_metadata: ListMeta): Buffer {
    return Buffer.from(']}\n');
  }

  frame({ type, item }: WatchFrame): Buffer {
    const table = this.#single(item, !this.#columnsSent);
    this.#columnsSent = true;
    return Buffer.concat([Buffer.from(`{"type":"${type}","object":`), table, Buffer.from('}\n')]);
  }

  error(status: Status): Buffer {
    return errorEventLine(status);
  }

  #single(item: EncodedObject, columns: boolean): Buffer {
    const { metadata, kind } = item.object;
    const { resourceVersion } = metadata ?? {};
    const printer = kind === 'Scale' ? scalePrinter : this.#printer;
    return Buffer.concat([
      Buffer.from(this.#head(resourceVersion === undefined ? {} : { resourceVersion }, columns, printer)),
      ...this.#row(item, this.#now(), printer),
      Buffer.from(']}'),
    ]);
  }

  #head(metadata: ListMeta, columns: boolean, printer = this.#printer): string {
    return `{"kind":"Table","apiVersion":"${metaApiVersion(this.#version)}","metadata":${JSON.stringify(metadata)},"columnDefinitions":${columns ? JSON.stringify(printer.columns) : 'null'},"rows":[`;
  }

  #row(item: EncodedObject, now: number, printer = this.#printer): readonly Buffer[] {
    const conditions = printer.conditions?.(item.object) ?? [];
    const cells = `{"cells":${stringifyExact(printer.cells(item.object, now))}${conditions.length === 0 ? '' : `,"conditions":${JSON.stringify(conditions)}`}`;
    switch (this.#include) {
      case 'None':
        return [Buffer.from(`${cells},"object":null}`)];
      case 'Metadata':
        return [Buffer.from(`${cells},"object":`), partialMetadataJson(item, this.#version), closing];
      case 'Object':
        return [Buffer.from(`${cells},"object":`), item.json('', '}')];
    }
  }
}

const closing = Buffer.from('}');
