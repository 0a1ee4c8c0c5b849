/** A role in short form. Each rule is `verbs | groups | resources | names` or `verbs | paths`, with comma-separated lists; `core` is the core group. */
export interface RoleRow {
  readonly namespace?: string;
  readonly name: string;
  /** The role into which this role's rules are aggregated, and the aggregation label of the roles that this role aggregates. */
  readonly into?: string;
  readonly from?: string;
  readonly rules?: readonly string[];
}

/** A binding in short form. Subjects are `user NAME`, `group NAME` or `account NAMESPACE/NAME`. `role` defaults to the name of the binding. */
export interface BindingRow {
  readonly namespace?: string;
  readonly name: string;
  readonly role?: string;
  readonly to: readonly string[];
}
