<?php

declare(strict_types=1);

namespace PartnerSdk;

/** The token endpoint rejected a request for a reason that linking again does not change: wrong credentials, a suspended application, too many requests. */
final class TokenEndpointException extends \RuntimeException
{
    public function __construct(public readonly int $status, public readonly string $reason, string $description)
    {
        parent::__construct("$status $reason: $description");
    }
}
