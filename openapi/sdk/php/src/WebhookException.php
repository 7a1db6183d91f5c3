<?php

declare(strict_types=1);

namespace PartnerSdk;

/** Why a request is not from the service: respond with 400. */
final class WebhookException extends \RuntimeException
{
    /** @param string $reason "malformed", "mismatch" or "expired" */
    public function __construct(public readonly string $reason)
    {
        parent::__construct("the webhook is rejected: $reason");
    }
}
